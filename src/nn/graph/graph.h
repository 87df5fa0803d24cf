/* The dense part of a model: a static graph of operations over a batch, with forward and backward.
 *
 * Built once through the functions below (or src/nn/graph/layers.h), finished, then run. Each value is [n,
 * rows, cols] with n the batch; a plain vector has rows = 1. A run takes a block of samples at a time through
 * the whole graph, forward, loss and backward, in memory that stays in the cache; blocks run in parallel, and
 * the parameters' gradients are added up in a fixed order (docs/operations.md).
 *
 * Building errors stick: the first one is kept and rk_graph_finish returns it, so a run of calls is checked
 * once. */
#ifndef RK_NN_GRAPH_GRAPH_H
#define RK_NN_GRAPH_GRAPH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <reckon/optimizer.h>
#include <reckon/table.h>

#include "base/buffer.h"
#include "base/state_dict.h"
#include "kernels/real.h"

typedef struct rk_graph rk_graph;
typedef struct rk_node rk_node;
typedef int32_t rk_value; /* number of a value in its graph; -1 after an error */

typedef struct rk_shape {
    int32_t rows, cols; /* of one sample */
} rk_shape;

/* Options of every operation; each reads those that its rk_op names (op.h), and rk_graph_add_op refuses
 * others. Zero means its default. */
typedef struct rk_op_options {
    int32_t units; /* linear, cin, constant: outputs; number_vectors: dim */
    bool by_row;  /* linear: over each row by itself, to [rows, units]; layer_norm: each row has scales of its
                     own */
    bool no_bias; /* linear */
    bool relu;    /* linear: max(x W + b, 0) */
    bool softmax; /* attention_pool */
    rk_dtype dtype;       /* linear, cin: compute in f32 or bf16 (f32 master weights and sums) */
    double rate;          /* dropout */
    double epsilon;       /* batch_norm 1e-5, layer_norm 1e-5, l2_normalize 1e-12 */
    double momentum;      /* batch_norm: weight of the new statistics, 0.1 */
    int32_t first, count; /* slice: columns of the flattened sample; attention: count heads; attention_pool,
                             mask: lengths' column `first`; mask: count rows before */
    int32_t rows, cols;   /* reshape; 0 for one of them: what the other leaves; mask: rows */
    rk_initializer initializer; /* linear: its default is glorot uniform; others by kind */
    bool has_initializer;
} rk_op_options;

/* A trainable tensor of the graph. */
typedef struct rk_parameter {
    const char *name;   /* "<node name>/weight", ... ; unique */
    int64_t rows, cols; /* linear's weight: [in, out] */
    rk_real *value;     /* [rows, cols]; the f32 master */
    rk_real *gradient;  /* [rows, cols]; summed over the batch, overwritten by each training run */
    int64_t offset;     /* of its gradient among those of all parameters */
    bool is_bias;       /* biases and norms: no weight decay, no l2 */
    bool is_written;    /* its gradient, by the first block of a group: it need not be zero before */
} rk_parameter;

/* seed: of the initial parameters and of dropout. */
rk_status rk_graph_create(uint64_t seed, rk_graph **out);
void rk_graph_free(rk_graph *graph);

rk_value rk_graph_add_input(rk_graph *graph, const char *name, rk_shape shape);
/* op: a name of src/nn/graph/op_list.h. name: unique in the graph, or NULL for "<op>_<number>". */
rk_value rk_graph_add_op(rk_graph *graph, const char *op, const char *name, const rk_op_options *options,
                         const rk_value *inputs, int32_t n_inputs);
/* The value that callers read (logits); it may be several. Its gradient is what they write before
 * backward. */
void rk_graph_mark_output(rk_graph *graph, rk_value value);
/* Limits an output to a run's first samples. In graphs that keep the whole batch, what it alone needs is not
 * computed for the last hooks->n_rest samples. The caller need not write their gradients, and gets none for
 * an input that only such outputs read. Before finish, which fails if what they need is summed over the
 * batch, or is the last to read a value that others need too (it would be the first to write that value's
 * gradient). */
void rk_graph_mark_partial_batch(rk_graph *graph, rk_value value);
void rk_graph_set_error(rk_graph *graph, rk_status status); /* keep the caller's own rk_error */
rk_status rk_graph_status(const rk_graph *graph);           /* of building so far */

rk_shape rk_graph_shape(const rk_graph *graph, rk_value value);
rk_value rk_graph_find_value(const rk_graph *graph, const char *name); /* -1 if there is none */
int32_t rk_graph_n_values(
    const rk_graph *graph); /* inputs and nodes, in the order in which they were added */

/* A batch is cut into micro-batches of equal numbers of samples, whose gradients are summed one by one and
 * then as a binary tree (base/tree_sum.h): so a few of the micro-batches can run here and others elsewhere,
 * and the bits stay the same. All are here by default, and then there is one. Before finish. */
typedef struct rk_graph_local_part {
    int64_t first_micro_batch, n_micro_batches; /* that run here */
} rk_graph_local_part;
void rk_graph_set_micro_batches(rk_graph *graph, int64_t n_micro_batches, rk_graph_local_part local);
int64_t rk_graph_micro_batch_size(const rk_graph *graph); /* samples of a micro-batch; those at the end of a
                                                        batch may have fewer, or none */
size_t rk_graph_n_micro_batches(const rk_graph *graph, int64_t n); /* of n samples */
size_t rk_graph_blocks_of_micro_batch(const rk_graph *graph);

/* A graph of many parameters with only some micro-batches here, of few samples, runs node by node over all of
 * them. A node's gradients are then complete, and can be summed with others' (hooks->ready), while the nodes
 * before it are still to come; blocks would complete them only at the end. The bits are the same. */
enum { RK_MANY_PARAMETERS = 1 << 22, RK_FEW_SAMPLES = 1024 };
static inline bool rk_graph_runs_node_by_node(double parameters, double samples) {
    return parameters >= RK_MANY_PARAMETERS && samples <= RK_FEW_SAMPLES;
}

/* Keep the values and gradients of the whole batch, for rk_graph_data and the like; graphs with batch_norm do
 * so by themselves. Before finish. */
void rk_graph_retain_values(rk_graph *graph);

/* A training step's samples at most (of all micro-batches), where finish makes room for more: blocks of
 * samples, and so the bits of a step, follow from it alone. Before finish. */
void rk_graph_set_step_batch(rk_graph *graph, int64_t samples);

/* Check, initialize the parameters, plan the memory of batches of up to max_batch samples (of all
 * micro-batches). */
rk_status rk_graph_finish(rk_graph *graph, int64_t max_batch, bool training);

/* A block of samples under way. */
typedef struct rk_run {
    const rk_graph *graph;
    int64_t first, n; /* samples first .. first+n-1 of those here */
    int64_t here,
        base;      /* samples of the batch that run here, and the number of the first of them in the batch */
    int64_t batch; /* samples of the batch */
    bool training;
    int64_t step;
    rk_real *memory; /* what the nodes' places count from */
    int64_t skip; /* samples before the block in that memory: 0, or `first` where it holds the whole batch */
    void *workspace;    /* the thread's own, of as many bytes as any node asked for */
    rk_real *gradients; /* of the parameters, of the group of blocks that this one belongs to: */
    size_t group;       /* its number */
    bool opens;         /* the group's first block */
    bool tells;         /* the group's last block, whose gradients are reported node by node (hooks->ready) */
    bool unbound;       /* inputs stand in the memory too, wherever rk_graph_bind_value says that they are */
    const struct rk_graph_context *context; /* of rk_graph_inference_set_context, or NULL; */
    bool of_context; /* this run, of one sample, is for what the context alone decides: the other columns of
                        inputs are not read. Other runs do not read the context's columns */
} rk_run;
rk_real *rk_run_data(const rk_run *run, rk_value value);     /* [run->n, rows, cols] */
rk_real *rk_run_gradient(const rk_run *run, rk_value value); /* the same; in training */

/* What the caller does for each block, on the thread that runs it. Any may be NULL. */
typedef struct rk_graph_hooks {
    void *context;
    rk_status (*read)(void *context, const rk_run *run); /* writes the inputs' data */
    rk_status (*loss)(void *context,
                      const rk_run *run); /* reads the outputs' data; in training writes their gradients */
    /* Where the loss is of the whole batch at once: in place of `loss`, between forward and backward; it
     * finds outputs by rk_graph_data, and writes their gradients (rk_graph_gradient). Only where the graph
     * keeps the whole batch. */
    rk_status (*whole)(void *context);
    rk_status (*take)(void *context, const rk_run *run); /* reads the inputs' gradients */
    int64_t n_rest;   /* the last samples, for which rk_graph_mark_partial_batch's outputs are not computed */
    bool has_context; /* rk_graph_inference_run: samples have the columns of rk_graph_inference_set_context in
                       * common
                       */
    /* Other work for the threads beside the blocks of rk_graph_train, which depends on none of them: pieces 0
     * .. n_beside-1, in any order. */
    void (*beside)(void *context, size_t piece);
    size_t n_beside;
    /* Where micro-batches run elsewhere: the batch's samples, and a sum [n] over all who run some, in the
     * order of the tree. batch 0: all are here. */
    int64_t batch;
    rk_status (*sum)(void *context, rk_real *values, size_t n);
    /* In training, all parameters' gradients from offset `first` on (rk_graph_gradients) are whole, of all
     * samples here, while those before them may still be under way: with ever lower `first`, the last time 0;
     * on any thread, one call at a time. */
    rk_status (*ready)(void *context, int64_t first);
} rk_graph_hooks;

/* training: batch statistics, dropout drawn from (seed, step). n <= max_batch. The first failure, in the
 * order of blocks, is returned. */
rk_status rk_graph_forward(rk_graph *graph, int64_t n, bool training, int64_t step,
                           const rk_graph_hooks *hooks);
/* Forward, loss, backward: fills every parameter's gradient. */
rk_status rk_graph_train(rk_graph *graph, int64_t n, int64_t step, const rk_graph_hooks *hooks);
/* Only where the graph keeps the whole batch: after a training forward of the same n, none of which rested,
 * with the outputs' gradients written. */
rk_status rk_graph_backward(rk_graph *graph, int64_t n);
/* [n, rows, cols]; after training, not between a batch_norm and what it does too (rk_graph_join_norms). */
rk_real *rk_graph_data(rk_graph *graph, rk_value value);
rk_real *rk_graph_gradient(rk_graph *graph, rk_value value); /* the same shape; inputs and outputs only */

/* An input's data or gradient, or an output's, in memory of the caller's: [max_batch, rows, cols]; NULL: the
 * run's own. */
void rk_graph_bind_value(rk_graph *graph, rk_value value, rk_real *data, rk_real *gradient);

/* Prediction by a graph whose parameters no longer change, so that any number of threads may predict at once.
 * Frozen, a graph that was finished without training is made ready for prediction once: later runs only read
 * it. */
rk_status rk_graph_freeze(rk_graph *graph);
/* The memory that a frozen graph runs in, for one thread at a time, or for the loops of one thread over
 * n_threads of its pool. The graph outlives it. */
typedef struct rk_graph_inference rk_graph_inference;
rk_status rk_graph_inference_create(const rk_graph *graph, int n_threads, rk_graph_inference **out);
void rk_graph_inference_free(rk_graph_inference *inference);
/* The bits of rk_graph_forward without training. Hooks: `read`, which writes all inputs, whatever
 * rk_graph_bind_value says, and `loss`. cancel: once another thread has set it, RK_INTERRUPTED after the
 * blocks that are under way; may be NULL. */
rk_status rk_graph_inference_run(rk_graph_inference *inference, int64_t n, const rk_graph_hooks *hooks,
                                 const atomic_bool *cancel);

/* Columns of an input, of one sample flattened. */
typedef struct rk_input_columns {
    rk_value input;
    int64_t first, count;
} rk_input_columns;
/* Which columns are the same in all samples of runs that has_context, as of one user beside many items. What
 * depends on them alone is computed once a run, and a linear whose input begins with such columns adds up
 * their products once: the bits stay. columns [n], those of an input in ascending order. */
rk_status rk_graph_inference_set_context(rk_graph_inference *inference, const rk_input_columns *columns,
                                         size_t n);

size_t rk_graph_n_blocks(const rk_graph *graph, int64_t n); /* of n samples */
size_t rk_graph_block_number_of_run(const rk_run *run);     /* 0 .. n_blocks-1, in the order of the samples */

rk_real *rk_graph_gradients(rk_graph *graph, size_t *n); /* of all parameters, one after the other, [*n] */
int32_t rk_graph_n_parameters(const rk_graph *graph);
rk_parameter *rk_graph_parameter(rk_graph *graph, int32_t index);
/* "dense/<parameter>" and running statistics ("dense/<node>/running_mean") as named tensors. */
rk_status rk_graph_state_dict(rk_graph *graph, rk_state_dict *state);

uint64_t rk_graph_memory_bytes(const rk_graph *graph,
                               int n_threads); /* of values and gradients, beside the parameters */
/* Arithmetic of the matrix products for one sample, forward or in a training step. */
double rk_graph_flops(const rk_graph *graph, bool training);
/* The matrix with the most arithmetic: [in, out]; 0 and 0 without any. */
void rk_graph_largest_layer(const rk_graph *graph, int64_t *in, int64_t *out);

/* One line a node: name, op, inputs, shape, parameters; for `reckon inspect`. */
void rk_graph_describe(const rk_graph *graph, rk_buffer *out);

#endif
