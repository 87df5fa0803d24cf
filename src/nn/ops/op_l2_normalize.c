/* Each row divided by its length: y = x / max(|x|, epsilon). dx = (dy - y (y . dy)) / |x|, dy / epsilon of a
 * row that is shorter, and 0 of a row of zeros, which has no direction. options: epsilon, 1e-12. */
#include <math.h>

#include "kernels/inline/lane_sum.h"
#include "nn/graph/op.h"

static double epsilon_of_node(const rk_node *node) {
    return node->options.epsilon > 0 ? node->options.epsilon : 1e-12;
}

static double l2_norm(const rk_real *x, int32_t n) {
    return sqrt((double)rk_dot_product_by_lanes(x, x, n));
}

static rk_real inverse_of(double length, double epsilon) {
    return (rk_real)(1 / (length > epsilon ? length : epsilon));
}

static rk_status l2_normalize_forward(const rk_run *run, const rk_node *node) {
    int32_t cols = node->shape.cols;
    const rk_real *x = rk_node_input(run, node, 0);
    rk_real *y = rk_node_output(run, node);
    for (int64_t r = 0; r < run->n * node->shape.rows; r++, x += cols, y += cols) {
        rk_real factor = inverse_of(l2_norm(x, cols), epsilon_of_node(node));
        for (int32_t c = 0; c < cols; c++) y[c] = factor * x[c];
    }
    return RK_OK;
}

static rk_status l2_normalize_backward(const rk_run *run, const rk_node *node) {
    int32_t cols = node->shape.cols;
    const rk_real *x = rk_node_input(run, node, 0), *y = rk_node_output(run, node),
                  *dy = rk_node_output_gradient(run, node);
    rk_real *dx = rk_node_input_gradient(run, node, 0);
    bool writes = rk_node_writes_gradient_first(node, 0);
    double epsilon = epsilon_of_node(node);
    for (int64_t r = 0; r < run->n * node->shape.rows; r++, x += cols, y += cols, dy += cols, dx += cols) {
        double length = l2_norm(x, cols);
        rk_real factor = length > 0 ? inverse_of(length, epsilon) : 0,
                dot = length > epsilon ? rk_dot_product_by_lanes(y, dy, cols) : 0;
        for (int32_t c = 0; c < cols; c++) dx[c] = (writes ? 0 : dx[c]) + factor * (dy[c] - dot * y[c]);
    }
    return RK_OK;
}

const rk_op rk_op_l2_normalize = {.name = "l2_normalize",
                                  .min_inputs = 1,
                                  .max_inputs = 1,
                                  .options = RK_OPTION_epsilon,
                                  .writes_gradient = true,
                                  .build = rk_node_take_input_shape,
                                  .forward = l2_normalize_forward,
                                  .backward = l2_normalize_backward};
