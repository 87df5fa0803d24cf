/* TFRecord framing and tf.train.Example. docs/formats/tfrecord.md. Pure. */
#ifndef RK_FORMAT_PROTOBUF_TFRECORD_H
#define RK_FORMAT_PROTOBUF_TFRECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/text/text.h"

enum { RK_TFRECORD_OVERHEAD = 16 };
/* Of a record's payload, so that its head alone cannot ask for any amount of memory. */
enum { RK_TFRECORD_MAX_BYTES = (1 << 26) - RK_TFRECORD_OVERHEAD };

/* One frame at data[0..n_bytes). *consumed = 0: more bytes are needed (and at_end is false). RK_BAD_DATA:
 * cut, or a checksum that does not match. */
rk_status rk_tfrecord_parse(const void *data, size_t n_bytes, bool at_end, rk_span *payload,
                            size_t *consumed);
/* The bytes of the whole frame at data, by its head alone; 0: the head is cut or damaged. */
size_t rk_tfrecord_frame_bytes(const void *data, size_t n_bytes);
void rk_tfrecord_write(const void *payload, size_t n_bytes, rk_buffer *out);

typedef enum rk_example_kind { RK_EXAMPLE_BYTES, RK_EXAMPLE_FLOAT, RK_EXAMPLE_INT64 } rk_example_kind;

/* Walk an Example: `feature` is called for each with its list of values, whose bytes are not looked at
 * before. A failing call ends the walk. */
typedef struct rk_example_visitor {
    void *context;
    rk_status (*feature)(void *context, rk_span name, rk_example_kind kind, rk_span list);
} rk_example_visitor;
rk_status rk_example_parse(const void *data, size_t n_bytes, const rk_example_visitor *visitor);
/* The same; before each feature, `known` gets all that is left and returns the bytes of those that it has
 * taken by itself. */
typedef size_t (*rk_example_known)(void *context, rk_span features);
rk_status rk_example_parse_known(const void *data, size_t n_bytes, const rk_example_visitor *visitor,
                                 rk_example_known known);

/* The values of a list. out has room for rk_example_max_values(kind, list); *n is how many there are.
 * RK_BAD_DATA: it is none of that kind. */
size_t rk_example_max_values(rk_example_kind kind, rk_span list);
rk_status rk_example_read_i64(rk_span list, int64_t *out, size_t *n);
rk_status rk_example_read_f32(rk_span list, float *out, size_t *n);
rk_status rk_example_read_bytes(rk_span list, rk_span *out, size_t *n);

/* Build an Example: begin, features, end. */
typedef struct rk_example_writer {
    rk_buffer features, list;
} rk_example_writer;
void rk_example_add_i64(rk_example_writer *writer, const char *name, const int64_t *values, size_t n);
void rk_example_add_f32(rk_example_writer *writer, const char *name, const float *values, size_t n);
void rk_example_add_bytes(rk_example_writer *writer, const char *name, const rk_span *values, size_t n);
/* Appends the Example's bytes to out and starts anew; returns the first failure. */
rk_status rk_example_finish(rk_example_writer *writer, rk_buffer *out);
void rk_example_writer_release(rk_example_writer *writer);

#endif
