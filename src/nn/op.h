/* What an operation is made of, and how it reaches its values. One operation a file, src/nn/op_<name>.c (docs/operations.md). */
#ifndef RK_NN_OP_H
#define RK_NN_OP_H

#include "base/parallel.h"
#include "nn/graph.h"
#include "nn/op_list.h"

enum { RK_MAX_NODE_PARAMETERS = 2, RK_MAX_NODE_STATES = 2, RK_ROW_BLOCK = 128 };

typedef struct rk_node rk_node;

/* One run of the graph. */
typedef struct rk_run {
    rk_graph *graph;
    int64_t n;
    bool training;
    int64_t step;
} rk_run;

typedef struct rk_op {
    const char *name;
    int32_t min_inputs, max_inputs; /* max 0: any number */
    bool is_view;                   /* the output is the first input's memory (reshape) */
    /* Checks inputs and options, sets node->shape, and asks for parameters, state and memory. */
    rk_status (*build)(rk_graph *graph, rk_node *node);
    /* Sample by sample: samples first .. last-1, blocks run in parallel. backward adds to the inputs' gradients. */
    void (*forward_block)(const rk_run *run, const rk_node *node, int64_t first, int64_t last);
    void (*backward_block)(const rk_run *run, const rk_node *node, int64_t first, int64_t last);
    /* Over the whole batch, after forward_block or backward_block where both are given; cuts its own parallel work. */
    rk_status (*forward)(const rk_run *run, rk_node *node);
    rk_status (*backward)(const rk_run *run, rk_node *node);
} rk_op;

struct rk_node {
    const rk_op *op;              /* NULL: an input */
    char *name;
    rk_op_options options;
    rk_value *inputs;             /* [n_inputs] */
    int32_t n_inputs, number;
    rk_shape shape;
    int32_t parameters[RK_MAX_NODE_PARAMETERS];
    int32_t n_parameters;
    rk_real *states[RK_MAX_NODE_STATES]; /* kept between runs and in checkpoints (running statistics), [width] each */
    const char *state_names[RK_MAX_NODE_STATES];
    int32_t n_states;
    int64_t saved_width;          /* reals a sample kept from forward to backward */
    int64_t scratch_width;        /* reals a sample needed in forward and in backward, not between */
    int64_t partial_width;        /* reals a block of RK_ROW_BLOCK samples: partial sums */
    int64_t fixed_width;          /* reals, kept from forward to backward */
    bool is_output;
    /* set by the plan */
    rk_real *data, *gradient, *saved, *scratch, *partials, *fixed;
    bool gradient_open;           /* zeroed already in this backward */
};

#define RK_OP_DECLARE(name) extern const rk_op rk_op_##name;
RK_OP_LIST(RK_OP_DECLARE)
#undef RK_OP_DECLARE

rk_node *rk_graph_node(const rk_graph *graph, rk_value value);

static inline int64_t rk_width(rk_shape shape) { return (int64_t)shape.rows * shape.cols; }
rk_shape rk_in_shape(const rk_graph *graph, const rk_node *node, int32_t input);
const rk_real *rk_in(const rk_run *run, const rk_node *node, int32_t input);
rk_real *rk_in_gradient(const rk_run *run, const rk_node *node, int32_t input);
rk_parameter *rk_node_parameter(const rk_run *run, const rk_node *node, int32_t index);

/* For build functions. kind of first value: see rk_parameter_fill. */
rk_status rk_node_add_parameter(rk_graph *graph, rk_node *node, const char *name, int64_t rows, int64_t cols, const rk_initializer *initializer, bool is_bias);
rk_status rk_node_add_state(rk_node *node, const char *name, rk_real initial);
rk_status rk_same_shapes(const rk_graph *graph, const rk_node *node);

/* out[0..width) = the sum over samples of what `add` adds up for each block: blocks in parallel into node->partials (partial_width must be at
 * least width), then added in order. */
typedef void (*rk_partial_sum)(const rk_run *run, const rk_node *node, int64_t first, int64_t last, rk_real *partial);
void rk_sum_blocks(const rk_run *run, const rk_node *node, rk_partial_sum add, int64_t width, rk_real *out);

/* Run fn over blocks of samples in parallel. */
typedef void (*rk_block_function)(const rk_run *run, const rk_node *node, int64_t first, int64_t last);
void rk_for_blocks(const rk_run *run, const rk_node *node, rk_block_function fn);

#endif
