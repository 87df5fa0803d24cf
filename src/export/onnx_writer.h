/* An ONNX model (IR version 8, operator set 17, 18 where it needs that) node by node. Names of values are
 * made here and unique. The first failure sticks: what follows does nothing, and rk_onnx_write_model returns
 * it. Pure. */
#ifndef RK_EXPORT_ONNX_WRITER_H
#define RK_EXPORT_ONNX_WRITER_H

#include <stdint.h>

#include "base/buffer.h"
#include "base/text/name_map.h"
#include "base/text/text.h"

typedef int32_t rk_onnx_value; /* the number of a value's name; -1 after a failure */

/* TensorProto.DataType */
typedef enum rk_onnx_type {
    RK_ONNX_F32 = 1,
    RK_ONNX_U8 = 2,
    RK_ONNX_I32 = 6,
    RK_ONNX_I64 = 7,
    RK_ONNX_TEXT = 8,
    RK_ONNX_F16 = 10,
    RK_ONNX_F64 = 11,
    RK_ONNX_U64 = 13,
    RK_ONNX_BF16 = 16
} rk_onnx_type;

typedef struct rk_onnx_dim {
    int64_t size;
    const char *name; /* of a size that each call chooses; NULL: `size` */
} rk_onnx_dim;

typedef struct rk_onnx_attribute {
    const char *name;
    enum { RK_ONNX_INT, RK_ONNX_INTS, RK_ONNX_FLOAT, RK_ONNX_STRING, RK_ONNX_TEXTS } kind;
    int64_t number;
    const int64_t *numbers; /* [n_numbers] */
    const rk_span *texts;   /* likewise */
    size_t n_numbers;
    float real;
} rk_onnx_attribute;

typedef struct rk_onnx_writer {
    const char *scope;                              /* what the names of nodes begin with; the caller's */
    rk_buffer nodes, initializers, inputs, outputs; /* of the GraphProto */
    char **names;                                   /* [n_names] */
    size_t n_names, capacity;
    rk_name_map numbers; /* of the names */
    bool uses_ml;        /* operators of ai.onnx.ml too, */
    bool uses_bits;      /* and bitwise ones, which operator set 18 has */
    rk_status status;
} rk_onnx_writer;

void rk_onnx_writer_release(rk_onnx_writer *writer);

/* What a caller of the model gives and gets. Two of one name are RK_UNSUPPORTED. */
rk_onnx_value rk_onnx_add_input(rk_onnx_writer *writer, const char *name, rk_onnx_type type,
                                const rk_onnx_dim *dims, size_t n_dims);
void rk_onnx_add_output(rk_onnx_writer *writer, rk_onnx_value value, const char *name, rk_onnx_type type,
                        const rk_onnx_dim *dims, size_t n_dims);

/* A tensor whose bytes are in another file of the same directory. */
typedef struct rk_onnx_place {
    const char *file;
    uint64_t begin, n_bytes;
} rk_onnx_place;
rk_onnx_value rk_onnx_add_external_tensor(rk_onnx_writer *writer, const char *name, rk_onnx_type type,
                                          const int64_t *dims, size_t n_dims, rk_onnx_place place);

/* Constants, small ones: [n], or without dimensions. The same whole numbers are one constant. */
rk_onnx_value rk_onnx_constant_ints(rk_onnx_writer *writer, const int64_t *values, size_t n);
rk_onnx_value rk_onnx_constant_int(rk_onnx_writer *writer, int64_t value);
rk_onnx_value rk_onnx_constant_uint(rk_onnx_writer *writer, uint64_t value); /* of 64 bits */
rk_onnx_value rk_onnx_constant_floats(rk_onnx_writer *writer, const float *values, size_t n);
rk_onnx_value rk_onnx_constant_double(rk_onnx_writer *writer, double value);
rk_onnx_value rk_onnx_constant_doubles(rk_onnx_writer *writer, const double *values, size_t n);

/* A node of one output, which it returns. */
rk_onnx_value rk_onnx_add_node(rk_onnx_writer *writer, const char *op, const rk_onnx_value *inputs,
                               size_t n_inputs, const rk_onnx_attribute *attributes, size_t n_attributes);

/* The same of an operator of ai.onnx.ml (operator set 3). */
rk_onnx_value rk_onnx_add_ml_node(rk_onnx_writer *writer, const char *op, const rk_onnx_value *inputs,
                                  size_t n_inputs, const rk_onnx_attribute *attributes, size_t n_attributes);

/* Appends the ModelProto to out. The graph's name is `name`. */
rk_status rk_onnx_write_model(rk_onnx_writer *writer, const char *name, rk_buffer *out);

#endif
