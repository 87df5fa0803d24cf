/* Over the cols of each row: y = exp(x - max) / sum. */
#include <math.h>

#include "nn/op.h"

static rk_status build(rk_graph *graph, rk_node *node) {
    node->shape = rk_in_shape(graph, node, 0);
    return RK_OK;
}

static rk_status forward(const rk_run *run, const rk_node *node) {
    int32_t cols = node->shape.cols;
    const rk_real *x = rk_in(run, node, 0);
    rk_real *y = rk_out(run, node);
    for (int64_t r = 0; r < run->n * node->shape.rows; r++, x += cols, y += cols) {
        rk_real most = x[0], sum = 0;
        for (int32_t c = 1; c < cols; c++) most = x[c] > most ? x[c] : most;
        for (int32_t c = 0; c < cols; c++) sum += y[c] = (rk_real)exp((double)(x[c] - most));
        for (int32_t c = 0; c < cols; c++) y[c] /= sum;
    }
    return RK_OK;
}

static rk_status backward(const rk_run *run, const rk_node *node) {
    int32_t cols = node->shape.cols;
    const rk_real *y = rk_out(run, node), *dy = rk_out_gradient(run, node);
    rk_real *dx = rk_in_gradient(run, node, 0);
    for (int64_t r = 0; r < run->n * node->shape.rows; r++, y += cols, dy += cols, dx += cols) {
        rk_real dot = 0;
        for (int32_t c = 0; c < cols; c++) dot += y[c] * dy[c];
        for (int32_t c = 0; c < cols; c++) dx[c] += y[c] * (dy[c] - dot);
    }
    return RK_OK;
}

const rk_op rk_op_softmax = {.name = "softmax", .min_inputs = 1, .max_inputs = 1, .build = build, .forward = forward, .backward = backward};
