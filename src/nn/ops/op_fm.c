/* The second-order part of a factorization machine (Rendle 2010), [rows, cols] -> [1, 1]:
 *     y = sum_c ((sum_r x_rc)^2 - sum_r x_rc^2) / 2        dx_rc += dy (sum_r x_rc - x_rc) */
#include "nn/graph/op.h"

static rk_status fm_build(rk_graph *graph, rk_node *node) {
    node->shape = (rk_shape){1, 1};
    node->saved_width = rk_node_input_shape(graph, node, 0).cols;
    return RK_OK;
}

static rk_status fm_forward(const rk_run *run, const rk_node *node) {
    rk_shape from = rk_node_input_shape(run->graph, node, 0);
    const rk_real *x = rk_node_input(run, node, 0);
    rk_real *y = rk_node_output(run, node), *sums = rk_node_saved(run, node);
    for (int64_t s = 0; s < run->n; s++, x += rk_shape_size(from), sums += from.cols) {
        y[s] = 0;
        for (int32_t c = 0; c < from.cols; c++) {
            rk_real sum = 0, squares = 0;
            for (int32_t r = 0; r < from.rows; r++) {
                rk_real v = x[(int64_t)r * from.cols + c];
                sum += v;
                squares += v * v;
            }
            sums[c] = sum;
            y[s] += (sum * sum - squares) / 2;
        }
    }
    return RK_OK;
}

static rk_status fm_backward(const rk_run *run, const rk_node *node) {
    rk_shape from = rk_node_input_shape(run->graph, node, 0);
    const rk_real *x = rk_node_input(run, node, 0), *sums = rk_node_saved(run, node),
                  *dy = rk_node_output_gradient(run, node);
    rk_real *dx = rk_node_input_gradient(run, node, 0);
    for (int64_t s = 0; s < run->n; s++, sums += from.cols)
        for (int32_t r = 0; r < from.rows; r++, x += from.cols, dx += from.cols)
            for (int32_t c = 0; c < from.cols; c++) dx[c] += dy[s] * (sums[c] - x[c]);
    return RK_OK;
}

const rk_op rk_op_fm = {.name = "fm",
                        .min_inputs = 1,
                        .max_inputs = 1,
                        .build = fm_build,
                        .forward = fm_forward,
                        .backward = fm_backward};
