/* The elementwise sum of inputs of one shape. */
#include <string.h>

#include "nn/op.h"

rk_status rk_same_shapes(const rk_graph *graph, const rk_node *node) {
    rk_shape a = rk_in_shape(graph, node, 0);
    for (int32_t k = 1; k < node->n_inputs; k++) {
        rk_shape b = rk_in_shape(graph, node, k);
        RK_FAIL_IF(a.rows != b.rows || a.cols != b.cols, RK_INVALID_ARGUMENT, "inputs of shapes [%d, %d] and [%d, %d]", a.rows, a.cols, b.rows, b.cols);
    }
    return RK_OK;
}

static rk_status build(rk_graph *graph, rk_node *node) {
    node->shape = rk_in_shape(graph, node, 0);
    return rk_same_shapes(graph, node);
}

static void forward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    int64_t width = rk_width(node->shape);
    memcpy(node->data + first * width, rk_in(run, node, 0) + first * width, (size_t)((last - first) * width) * sizeof *node->data);
    for (int32_t k = 1; k < node->n_inputs; k++) {
        const rk_real *x = rk_in(run, node, k);
        for (int64_t i = first * width; i < last * width; i++) node->data[i] += x[i];
    }
}

static void backward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    int64_t width = rk_width(node->shape);
    for (int32_t k = 0; k < node->n_inputs; k++) {
        rk_real *dx = rk_in_gradient(run, node, k);
        for (int64_t i = first * width; i < last * width; i++) dx[i] += node->gradient[i];
    }
}

const rk_op rk_op_add = {.name = "add", .min_inputs = 1, .build = build, .forward_block = forward_block, .backward_block = backward_block};
