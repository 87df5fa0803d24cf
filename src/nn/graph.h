/* The dense part of a model: a static graph of operations over a batch, with forward and backward in one planned arena.
 *
 * Built once through the functions below (or src/nn/layers.h), finished, then run: write the inputs, forward, write the
 * gradient of the outputs, backward, read the gradients of inputs and parameters. Each value is [n, rows, cols] with n the
 * batch; a plain vector has rows = 1. Sample s of a value begins at data + s * rows * cols.
 *
 * Building errors stick: the first one is kept and rk_graph_finish returns it, so a run of calls is checked once. */
#ifndef RK_NN_GRAPH_H
#define RK_NN_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include <reckon/optimizer.h>
#include <reckon/table.h>

#include "base/buffer.h"
#include "base/state.h"
#include "kernels/real.h"

typedef struct rk_graph rk_graph;
typedef int32_t rk_value; /* number of a value in its graph; -1 after an error */

typedef struct rk_shape {
    int32_t rows, cols; /* of one sample */
} rk_shape;

/* Options of every operation; each reads those it has (src/nn/op_*.c says which). Zero means its default. */
typedef struct rk_op_options {
    int32_t units;        /* linear: outputs */
    bool no_bias;         /* linear */
    rk_dtype dtype;       /* linear: compute in f32 or bf16 (f32 master weights and sums) */
    double rate;          /* dropout */
    double epsilon;       /* batch_norm 1e-5, layer_norm 1e-5 */
    double momentum;      /* batch_norm: weight of the new statistics, 0.1 */
    int32_t first, count; /* slice: columns of the flattened sample */
    rk_initializer initializer; /* linear: its default is glorot uniform; others by kind */
    bool has_initializer;
} rk_op_options;

/* A trainable tensor of the graph. */
typedef struct rk_parameter {
    const char *name;      /* "<node name>/weight", ... ; unique */
    int64_t rows, cols;    /* linear's weight: [in, out] */
    rk_real *value;        /* [rows, cols]; the f32 master */
    rk_real *gradient;     /* [rows, cols]; summed over the batch, overwritten by each backward */
    bool is_bias;          /* biases and norms: no weight decay, no l2 */
} rk_parameter;

/* seed: of the initial parameters and of dropout. */
rk_status rk_graph_create(uint64_t seed, rk_graph **out);
void rk_graph_free(rk_graph *graph);

rk_value rk_graph_input(rk_graph *graph, const char *name, rk_shape shape);
/* op: a name of src/nn/op_list.h. name: unique in the graph, or NULL for "<op>_<number>". */
rk_value rk_graph_add(rk_graph *graph, const char *op, const char *name, const rk_op_options *options, const rk_value *inputs, int32_t n_inputs);
/* The value that callers read (logits); it may be several. Its gradient is what they write before backward. */
void rk_graph_output(rk_graph *graph, rk_value value);
void rk_graph_fail(rk_graph *graph, rk_status status); /* keep the caller's own rk_error */

rk_shape rk_graph_shape(const rk_graph *graph, rk_value value);
rk_value rk_graph_find(const rk_graph *graph, const char *name); /* -1 if there is none */

/* Check, initialize the parameters, plan the arena for batches of up to max_batch samples. */
rk_status rk_graph_finish(rk_graph *graph, int64_t max_batch, bool training);

rk_real *rk_graph_data(rk_graph *graph, rk_value value);      /* [n, rows, cols] */
rk_real *rk_graph_gradient(rk_graph *graph, rk_value value);  /* the same shape; inputs and outputs only */

/* training: batch statistics, dropout drawn from (seed, step). n <= max_batch. */
rk_status rk_graph_forward(rk_graph *graph, int64_t n, bool training, int64_t step);
/* After a training forward of the same n, with the outputs' gradients written. Fills every parameter's gradient and the
 * inputs' gradients. */
rk_status rk_graph_backward(rk_graph *graph, int64_t n);

int32_t rk_graph_n_parameters(const rk_graph *graph);
rk_parameter *rk_graph_parameter(rk_graph *graph, int32_t index);
/* "dense/<parameter>" and running statistics ("dense/<node>/running_mean") as named tensors. */
rk_status rk_graph_state(rk_graph *graph, rk_state *state);

uint64_t rk_graph_arena_bytes(const rk_graph *graph);
/* One line a node: name, op, inputs, shape, parameters; for `reckon inspect`. */
void rk_graph_describe(const rk_graph *graph, rk_buffer *out);

#endif
