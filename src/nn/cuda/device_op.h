/* An operation on a GPU, and how it reaches its values: the whole batch at once, a launch or a few. The
 * operation itself, its equation, its shapes and its parameters, is src/nn/ops/op_<name>.c's. */
#ifndef RK_NN_CUDA_DEVICE_OP_H
#define RK_NN_CUDA_DEVICE_OP_H

#include "cuda/launch_list.h"
#include "nn/cuda/device_graph.h"
#include "nn/cuda/device_op_list.h"
#include "nn/graph/graph_internal.h"

/* A run over a batch: n samples. */
typedef struct rk_device_run {
    const rk_device_graph *graph;
    rk_stream *stream;
    int64_t n, total; /* samples here, and of the whole batch */
    bool training;
    const int64_t *step; /* device memory */
} rk_device_run;

/* backward adds to the gradients of its inputs, or writes those that are the first of their value
 * (rk_node_writes_gradient_first), and writes those of its parameters. */
typedef struct rk_device_op {
    const char *name;
    int64_t (*saved)(const rk_graph *graph,
                     const rk_node *node); /* floats of a sample that it keeps from forward to backward; NULL:
                                              saved_width, as on the CPU */
    int64_t (*scratch)(
        const rk_graph *graph, const rk_node *node,
        int64_t n); /* floats needed while one of the two runs over up to n samples; NULL: none */
    void (*forward)(const rk_device_run *run, const rk_node *node);
    void (*backward)(const rk_device_run *run, const rk_node *node);
} rk_device_op;

#define RK_DEVICE_OP_DECLARE(name) extern const rk_device_op rk_device_op_##name;
RK_DEVICE_OP_LIST(RK_DEVICE_OP_DECLARE)
#undef RK_DEVICE_OP_DECLARE

/* Device memory of a node: its inputs', its output's, what it keeps from forward to backward, its parameters,
 * its running statistics and the sums of the batch. */
const float *rk_device_node_input(const rk_device_run *run, const rk_node *node, int32_t input);
float *rk_device_node_input_gradient(const rk_device_run *run, const rk_node *node, int32_t input);
float *rk_device_node_output(const rk_device_run *run, const rk_node *node);
float *rk_device_node_output_gradient(const rk_device_run *run, const rk_node *node);
/* Values from a sample to the next, of value and gradient: the shape's size, but of a concat that only linear
 * layers over whole samples read. Its value has zeros behind its columns. */
int64_t rk_device_node_stride(const rk_device_run *run, const rk_node *node);
int64_t rk_device_node_input_stride(const rk_device_run *run, const rk_node *node, int32_t input);
float *rk_device_node_saved(const rk_device_run *run, const rk_node *node);
const float *rk_device_parameter(const rk_device_run *run, const rk_node *node, int32_t index);
float *rk_device_parameter_gradient(const rk_device_run *run, const rk_node *node, int32_t index);
float *rk_device_node_state(const rk_device_run *run, const rk_node *node, int32_t index);
float *rk_device_node_batch_sums(const rk_device_run *run, const rk_node *node);
float *rk_device_scratch(const rk_device_run *run);
const rk_graph *rk_device_host_graph(const rk_device_run *run);
rk_shape rk_device_node_input_shape(const rk_device_run *run, const rk_node *node, int32_t input);
/* How a matrix of this dtype is multiplied. */
rk_cuda_math rk_device_math_mode(const rk_device_run *run, rk_dtype dtype);

/* An input that stands in the node's own columns: nothing to copy. An input whose gradient somebody reads. */
bool rk_device_input_is_part_of_node(const rk_device_run *run, const rk_node *node, int32_t input);
bool rk_device_input_needs_gradient(const rk_device_run *run, const rk_node *node, int32_t input);

static inline int64_t rk_device_node_values(const rk_device_run *run, const rk_node *node) {
    return run->n * rk_shape_size(node->shape);
}

/* The gradient of a bias, or the like: the sum of dy's rows [rows, cols]. */
void rk_device_sum_rows_to_columns(const rk_device_run *run, int64_t rows, int64_t cols, const float *dy,
                                   float *out);
/* values [n] summed over ranks; nothing on one rank. */
void rk_device_all_reduce(const rk_device_run *run, float *values, int64_t n);
bool rk_device_is_one_rank(const rk_device_run *run);
/* Floats of scratch where the sums are of the output's columns. */
int64_t rk_device_sum_scratch(const rk_graph *graph, const rk_node *node, int64_t n);

#endif
