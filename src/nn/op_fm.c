/* The second-order part of a factorization machine (Rendle 2010), [rows, cols] -> [1, 1]:
 *     y = sum_c ((sum_r x_rc)^2 - sum_r x_rc^2) / 2        dx_rc += dy (sum_r x_rc - x_rc) */
#include "nn/op.h"

static rk_status build(rk_graph *graph, rk_node *node) {
    node->shape = (rk_shape){1, 1};
    node->saved_width = rk_in_shape(graph, node, 0).cols;
    return RK_OK;
}

static void forward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    rk_shape from = rk_in_shape(run->graph, node, 0);
    for (int64_t s = first; s < last; s++) {
        const rk_real *x = rk_in(run, node, 0) + s * rk_width(from);
        rk_real *sums = node->saved + s * from.cols, y = 0;
        for (int32_t c = 0; c < from.cols; c++) {
            rk_real sum = 0, squares = 0;
            for (int32_t r = 0; r < from.rows; r++) {
                rk_real v = x[(int64_t)r * from.cols + c];
                sum += v;
                squares += v * v;
            }
            sums[c] = sum;
            y += (sum * sum - squares) / 2;
        }
        node->data[s] = y;
    }
}

static void backward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    rk_shape from = rk_in_shape(run->graph, node, 0);
    for (int64_t s = first; s < last; s++) {
        const rk_real *x = rk_in(run, node, 0) + s * rk_width(from), *sums = node->saved + s * from.cols;
        rk_real *dx = rk_in_gradient(run, node, 0) + s * rk_width(from);
        for (int32_t r = 0; r < from.rows; r++)
            for (int32_t c = 0; c < from.cols; c++) dx[(int64_t)r * from.cols + c] += node->gradient[s] * (sums[c] - x[(int64_t)r * from.cols + c]);
    }
}

const rk_op rk_op_fm = {.name = "fm", .min_inputs = 1, .max_inputs = 1, .build = build, .forward_block = forward_block, .backward_block = backward_block};
