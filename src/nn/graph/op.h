/* What an operation is made of, and how it reaches its values. One operation a file, src/nn/ops/op_<name>.c
 * (docs/operations.md). */
#ifndef RK_NN_GRAPH_OP_H
#define RK_NN_GRAPH_OP_H

#include "base/thread/parallel.h"
#include "nn/graph/graph.h"
#include "nn/graph/op_list.h"

enum { RK_MAX_NODE_PARAMETERS = 2, RK_MAX_NODE_STATES = 2 };

/* Every option of rk_op_options, once: X(name, whether options o give it). */
#define RK_OP_OPTION_LIST(X)      \
    X(units, o->units != 0)       \
    X(by_row, o->by_row)          \
    X(no_bias, o->no_bias)        \
    X(relu, o->relu)              \
    X(softmax, o->softmax)        \
    X(dtype, o->dtype != RK_F32)  \
    X(rate, o->rate != 0)         \
    X(epsilon, o->epsilon != 0)   \
    X(momentum, o->momentum != 0) \
    X(first, o->first != 0)       \
    X(count, o->count != 0)       \
    X(rows, o->rows != 0)         \
    X(cols, o->cols != 0)         \
    X(initializer, o->has_initializer)
enum {
#define RK_OPTION_NUMBER(name, given) RK_OPTION_NUMBER_##name,
    RK_OP_OPTION_LIST(RK_OPTION_NUMBER)
#undef RK_OPTION_NUMBER
        RK_N_OP_OPTIONS
};
enum {
#define RK_OPTION_BIT(name, given) RK_OPTION_##name = 1 << RK_OPTION_NUMBER_##name,
    RK_OP_OPTION_LIST(RK_OPTION_BIT)
#undef RK_OPTION_BIT
};

/* An operation works on a block of samples, run->n of them, that stand one after the other from what
 * rk_node_input, rk_node_output and the like return; blocks run in parallel, so they touch no other sample.
 * backward adds to the gradients of its inputs (which the caller zeroes before the first) and of its
 * parameters. */
typedef struct rk_op {
    const char *name;
    int32_t min_inputs, max_inputs; /* max 0: any number */
    unsigned options;               /* RK_OPTION_*: those that it reads */
    bool is_view;                   /* the output is the first input's memory (reshape) */
    bool is_elementwise;  /* forward and backward take any few samples of a block in turn: neighbours that do
                             run together */
    bool writes_gradient; /* backward overwrites the inputs' gradients where rk_node_writes_gradient_first
                             says that it may */
    bool writes_weight;   /* backward overwrites the first parameter's gradient where run->opens */
    /* Checks inputs and options, sets node->shape, and asks for parameters, state and memory. */
    rk_status (*build)(rk_graph *graph, rk_node *node);
    /* When the graph is finished and blocks are known to have up to max_rows samples: what the node needs
     * beside its parameters. */
    rk_status (*finish)(const rk_graph *graph, rk_node *node, int64_t max_rows);
    void (*release)(rk_node *node); /* of node->own */
    /* Once a run, before any block: parameters into the form that the blocks want. */
    rk_status (*prepare)(const rk_graph *graph, rk_node *node, bool training);
    rk_status (*forward)(const rk_run *run, const rk_node *node);
    rk_status (*backward)(const rk_run *run, const rk_node *node);
    /* Where an input begins with `columns` columns of the context (graph_shared_context.c): what forward
     * makes of them alone, [width of the output], which it then begins with (rk_node_context_products). NULL:
     * it never does. */
    rk_status (*begin)(const rk_run *run, const rk_node *node, int64_t columns, rk_real *out);
    bool takes_context; /* forward reads its inputs by rk_node_input_samples */
    /* Sums over the whole batch, for operations whose samples depend on each other: gather adds a block's
     * share to partial [gather_width], and when all blocks are added up, combine takes the sums: passes 0 ..
     * n_passes-1 before forward, in training; one more, n_passes, before backward. A graph with such an
     * operation keeps the whole batch and runs in segments. */
    int32_t n_passes;
    void (*gather)(const rk_run *run, const rk_node *node, int32_t pass, rk_real *partial);
    void (*combine)(rk_node *node, int32_t pass, const rk_real *sums, int64_t n);
} rk_op;

/* Where a node's pieces stand in a run's memory, in reals; set by the plan. */
typedef struct rk_place {
    int64_t data, gradient, saved;
} rk_place;

struct rk_node {
    const rk_op *op; /* NULL: an input */
    char *name;
    rk_op_options options;
    rk_value *inputs;     /* [n_inputs] */
    bool *first_gradient; /* [n_inputs]: backward of this node is the first to add to the input's gradient */
    int32_t n_inputs, number;
    rk_shape shape;
    int32_t parameters[RK_MAX_NODE_PARAMETERS];
    int32_t n_parameters;
    rk_real *states[RK_MAX_NODE_STATES]; /* kept between runs and in checkpoints (running statistics), [width]
                                            each */
    const char *state_names[RK_MAX_NODE_STATES];
    int32_t n_states;
    void *own;          /* the operation's */
    const rk_op *fused; /* in prediction, in place of op in prepare and forward; NULL: op (graph_fuse.c) */
    void *fused_own;    /* its own; released by it */
    rk_node *does; /* in a graph for training: the last of the nodes behind this one whose work it does too,
                      as far as the CPU runs them; the value of that one is the first of theirs; or NULL */
    rk_node *doer; /* which node does this one's work; or NULL */
    size_t workspace_bytes; /* that a thread needs while it runs the node */
    int64_t saved_width;    /* reals a sample kept from forward to backward */
    int64_t gather_width;
    rk_real *sums; /* [sums_width] that combine keeps for the blocks */
    int64_t sums_width;
    bool is_output, is_used;              /* is_used: a node reads it, itself or through a view */
    bool leads;                           /* only outputs that lead need it (rk_graph_mark_partial_batch) */
    bool has_gradient;                    /* while the plan is made: a node adds to its gradient */
    rk_real *bound_data, *bound_gradient; /* the caller's memory for the whole batch, or NULL */
    rk_place place;
};

#define RK_OP_DECLARE(name) extern const rk_op rk_op_##name;
RK_OP_LIST(RK_OP_DECLARE)
#undef RK_OP_DECLARE

/* Whose prepare, forward, begin and takes_context hold; NULL: an input. */
static inline const rk_op *rk_forward_op(const rk_node *node, bool training) {
    return node->fused && !training ? node->fused : node->op;
}

const rk_op *rk_op_find(const char *name); /* NULL if there is none */
rk_node *rk_graph_node(const rk_graph *graph, rk_value value);

static inline int64_t rk_shape_size(rk_shape shape) {
    return (int64_t)shape.rows * shape.cols;
}
rk_shape rk_node_input_shape(const rk_graph *graph, const rk_node *node, int32_t input);
static inline rk_real *rk_run_memory_at(const rk_run *run, int64_t offset, int64_t width) {
    return run->memory + offset + run->skip * width;
}
rk_real *rk_node_data(const rk_run *run, const rk_node *node); /* of a node that is no view */
rk_real *rk_node_gradient(const rk_run *run, const rk_node *node);
static inline const rk_real *rk_node_input(const rk_run *run, const rk_node *node, int32_t input) {
    return rk_run_data(run, node->inputs[input]);
}
static inline rk_real *rk_node_input_gradient(const rk_run *run, const rk_node *node, int32_t input) {
    return rk_run_gradient(run, node->inputs[input]);
}
/* An input in forward, of an operation that takes_context: sample s stands at data + s * stride, with stride
 * 0 if all are the same. */
typedef struct rk_samples {
    const rk_real *data;
    int64_t stride;
} rk_samples;
rk_samples rk_node_input_samples(const rk_run *run, const rk_node *node, int32_t input);
/* What op->begin has made of the first *columns columns of the first input, or NULL. */
const rk_real *rk_node_context_products(const rk_run *run, const rk_node *node, int64_t *columns);
/* In begin, of a run of the context alone: whether it decides all of a value; one sample of one that it
 * does, or what the value's node has begun. */
bool rk_run_is_context_value(const rk_run *run, rk_value value);
const rk_real *rk_run_context_value(const rk_run *run, rk_value value);
static inline rk_real *rk_node_output(const rk_run *run, const rk_node *node) {
    return rk_node_data(run, node);
}
static inline rk_real *rk_node_output_gradient(const rk_run *run, const rk_node *node) {
    return rk_node_gradient(run, node);
}
static inline rk_real *rk_node_saved(const rk_run *run, const rk_node *node) {
    return rk_run_memory_at(run, node->place.saved, node->saved_width);
}
static inline bool rk_node_writes_gradient_first(const rk_node *node, int32_t input) {
    return node->first_gradient[input];
}
const rk_real *rk_node_parameter(const rk_run *run, const rk_node *node, int32_t index);
rk_real *rk_node_parameter_gradient(const rk_run *run, const rk_node *node,
                                    int32_t index); /* of this run's group: add to it */

/* For build functions. kind of first value: see rk_parameter_initialize. */
rk_status rk_node_add_parameter(rk_graph *graph, rk_node *node, const char *name, int64_t rows, int64_t cols,
                                const rk_initializer *initializer, bool is_bias);
rk_status rk_node_add_state(rk_node *node, const char *name, rk_real initial);
/* The build function of operations whose output is shaped as their first input. */
static inline rk_status rk_node_take_input_shape(rk_graph *graph, rk_node *node) {
    node->shape = rk_node_input_shape(graph, node, 0);
    return RK_OK;
}
rk_status rk_node_check_same_shapes(const rk_graph *graph, const rk_node *node,
                                    int32_t n); /* of the first n inputs */

#endif
