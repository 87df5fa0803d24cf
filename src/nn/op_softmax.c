/* Over the cols of each row: y = exp(x - max) / sum. */
#include <math.h>

#include "nn/op.h"

static rk_status build(rk_graph *graph, rk_node *node) {
    node->shape = rk_in_shape(graph, node, 0);
    return RK_OK;
}

static void forward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    int32_t cols = node->shape.cols;
    for (int64_t r = first * node->shape.rows; r < last * node->shape.rows; r++) {
        const rk_real *x = rk_in(run, node, 0) + r * cols;
        rk_real *y = node->data + r * cols, most = x[0], sum = 0;
        for (int32_t c = 1; c < cols; c++) most = x[c] > most ? x[c] : most;
        for (int32_t c = 0; c < cols; c++) sum += y[c] = (rk_real)exp((double)(x[c] - most));
        for (int32_t c = 0; c < cols; c++) y[c] /= sum;
    }
}

static void backward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    int32_t cols = node->shape.cols;
    for (int64_t r = first * node->shape.rows; r < last * node->shape.rows; r++) {
        const rk_real *y = node->data + r * cols, *dy = node->gradient + r * cols;
        rk_real *dx = rk_in_gradient(run, node, 0) + r * cols, dot = 0;
        for (int32_t c = 0; c < cols; c++) dot += y[c] * dy[c];
        for (int32_t c = 0; c < cols; c++) dx[c] += y[c] * (dy[c] - dot);
    }
}

const rk_op rk_op_softmax = {.name = "softmax", .min_inputs = 1, .max_inputs = 1, .build = build, .forward_block = forward_block, .backward_block = backward_block};
