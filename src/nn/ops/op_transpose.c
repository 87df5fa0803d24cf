/* [rows, cols] -> [cols, rows]: y_cr = x_rc. */
#include "nn/graph/op.h"

static rk_status transpose_build(rk_graph *graph, rk_node *node) {
    rk_shape from = rk_node_input_shape(graph, node, 0);
    node->shape = (rk_shape){from.cols, from.rows};
    return RK_OK;
}

static rk_status transpose_forward(const rk_run *run, const rk_node *node) {
    rk_shape to = node->shape;
    const rk_real *x = rk_node_input(run, node, 0);
    rk_real *y = rk_node_output(run, node);
    for (int64_t s = 0; s < run->n; s++, x += rk_shape_size(to), y += rk_shape_size(to))
        for (int32_t r = 0; r < to.rows; r++)
            for (int32_t c = 0; c < to.cols; c++) y[(int64_t)r * to.cols + c] = x[(int64_t)c * to.rows + r];
    return RK_OK;
}

static rk_status transpose_backward(const rk_run *run, const rk_node *node) {
    rk_shape to = node->shape;
    const rk_real *dy = rk_node_output_gradient(run, node);
    rk_real *dx = rk_node_input_gradient(run, node, 0);
    for (int64_t s = 0; s < run->n; s++, dx += rk_shape_size(to), dy += rk_shape_size(to))
        for (int32_t c = 0; c < to.cols; c++)
            for (int32_t r = 0; r < to.rows; r++)
                dx[(int64_t)c * to.rows + r] += dy[(int64_t)r * to.cols + c];
    return RK_OK;
}

const rk_op rk_op_transpose = {.name = "transpose",
                               .min_inputs = 1,
                               .max_inputs = 1,
                               .build = transpose_build,
                               .forward = transpose_forward,
                               .backward = transpose_backward};
