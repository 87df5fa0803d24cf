/* Over the cols of each row: y = exp(x - max) / sum. */
#include "nn/graph/op.h"
#include "nn/ops/softmax.h"

static rk_status softmax_forward(const rk_run *run, const rk_node *node) {
    int32_t cols = node->shape.cols;
    const rk_real *x = rk_node_input(run, node, 0);
    rk_real *y = rk_node_output(run, node);
    for (int64_t r = 0; r < run->n * node->shape.rows; r++) rk_softmax_row(x + r * cols, y + r * cols, cols);
    return RK_OK;
}

static rk_status softmax_backward(const rk_run *run, const rk_node *node) {
    int32_t cols = node->shape.cols;
    const rk_real *y = rk_node_output(run, node), *dy = rk_node_output_gradient(run, node);
    rk_real *dx = rk_node_input_gradient(run, node, 0);
    for (int64_t r = 0; r < run->n * node->shape.rows; r++)
        rk_softmax_row_backward(y + r * cols, dy + r * cols, dx + r * cols, cols);
    return RK_OK;
}

const rk_op rk_op_softmax = {.name = "softmax",
                             .min_inputs = 1,
                             .max_inputs = 1,
                             .build = rk_node_take_input_shape,
                             .forward = softmax_forward,
                             .backward = softmax_backward};
