/* The elementwise sum of inputs of one shape. */
#include <string.h>

#include "kernels/kernels.h"
#include "nn/graph/op.h"

rk_status rk_node_check_same_shapes(const rk_graph *graph, const rk_node *node, int32_t n) {
    rk_shape a = rk_node_input_shape(graph, node, 0);
    for (int32_t k = 1; k < n; k++) {
        rk_shape b = rk_node_input_shape(graph, node, k);
        RK_FAIL_IF(a.rows != b.rows || a.cols != b.cols, RK_INVALID_ARGUMENT,
                   "the inputs must have the same shape, not [%d, %d] and [%d, %d]", a.rows, a.cols, b.rows,
                   b.cols);
    }
    return RK_OK;
}

static rk_status add_build(rk_graph *graph, rk_node *node) {
    node->shape = rk_node_input_shape(graph, node, 0);
    return rk_node_check_same_shapes(graph, node, node->n_inputs);
}

static rk_status add_forward(const rk_run *run, const rk_node *node) {
    int64_t n = run->n * rk_shape_size(node->shape);
    rk_real *y = rk_node_output(run, node);
    memcpy(y, rk_node_input(run, node, 0), (size_t)n * sizeof *y);
    for (int32_t k = 1; k < node->n_inputs; k++) rk_values_add(rk_node_input(run, node, k), n, y);
    return RK_OK;
}

static rk_status add_backward(const rk_run *run, const rk_node *node) {
    int64_t n = run->n * rk_shape_size(node->shape);
    const rk_real *dy = rk_node_output_gradient(run, node);
    for (int32_t k = 0; k < node->n_inputs; k++) rk_values_add(dy, n, rk_node_input_gradient(run, node, k));
    return RK_OK;
}

const rk_op rk_op_add = {
    .name = "add", .min_inputs = 1, .build = add_build, .forward = add_forward, .backward = add_backward};
