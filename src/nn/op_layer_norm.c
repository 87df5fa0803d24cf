/* Over each row's cols (Ba et al. 2016): y = gamma (x - mean) / sqrt(var + epsilon) + beta, var the biased one. */
#include <math.h>

#include "nn/op.h"

static rk_status build(rk_graph *graph, rk_node *node) {
    node->shape = rk_in_shape(graph, node, 0);
    if (node->options.epsilon == 0) node->options.epsilon = 1e-5;
    node->saved_width = 2 * (int64_t)node->shape.rows; /* mean, 1/deviation */
    node->partial_width = 2 * (int64_t)node->shape.cols;
    node->fixed_width = node->partial_width;
    rk_initializer ones = {.kind = RK_INIT_ONES}, zeros = {.kind = RK_INIT_ZEROS};
    RK_TRY(rk_node_add_parameter(graph, node, "gamma", 1, node->shape.cols, &ones, true));
    return rk_node_add_parameter(graph, node, "beta", 1, node->shape.cols, &zeros, true);
}

static void forward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    int32_t cols = node->shape.cols;
    const rk_real *gamma = rk_node_parameter(run, node, 0)->value, *beta = rk_node_parameter(run, node, 1)->value;
    for (int64_t r = first * node->shape.rows; r < last * node->shape.rows; r++) {
        const rk_real *x = rk_in(run, node, 0) + r * cols;
        double mean = 0, var = 0;
        for (int32_t c = 0; c < cols; c++) mean += x[c];
        mean /= cols;
        for (int32_t c = 0; c < cols; c++) var += (x[c] - mean) * (x[c] - mean);
        rk_real m = (rk_real)mean, scale = (rk_real)(1 / sqrt(var / cols + node->options.epsilon));
        for (int32_t c = 0; c < cols; c++) node->data[r * cols + c] = gamma[c] * ((x[c] - m) * scale) + beta[c];
        node->saved[2 * r] = m;
        node->saved[2 * r + 1] = scale;
    }
}

static void backward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    int32_t cols = node->shape.cols;
    const rk_real *gamma = rk_node_parameter(run, node, 0)->value;
    for (int64_t r = first * node->shape.rows; r < last * node->shape.rows; r++) {
        const rk_real *x = rk_in(run, node, 0) + r * cols, *dy = node->gradient + r * cols;
        rk_real *dx = rk_in_gradient(run, node, 0) + r * cols, m = node->saved[2 * r], scale = node->saved[2 * r + 1];
        double sum = 0, dot = 0;
        for (int32_t c = 0; c < cols; c++) {
            double g = (double)dy[c] * gamma[c];
            sum += g;
            dot += g * ((x[c] - m) * scale);
        }
        rk_real mean = (rk_real)(sum / cols), slope = (rk_real)(dot / cols);
        for (int32_t c = 0; c < cols; c++) dx[c] += scale * (dy[c] * gamma[c] - mean - (x[c] - m) * scale * slope);
    }
}

static void add_gradients(const rk_run *run, const rk_node *node, int64_t first, int64_t last, rk_real *partial) {
    int32_t cols = node->shape.cols;
    for (int64_t r = first * node->shape.rows; r < last * node->shape.rows; r++)
        for (int32_t c = 0; c < cols; c++) {
            rk_real dy = node->gradient[r * cols + c];
            partial[c] += dy * ((rk_in(run, node, 0)[r * cols + c] - node->saved[2 * r]) * node->saved[2 * r + 1]);
            partial[cols + c] += dy;
        }
}

static rk_status backward(const rk_run *run, rk_node *node) {
    int32_t cols = node->shape.cols;
    rk_sum_blocks(run, node, add_gradients, 2 * cols, node->fixed);
    for (int32_t c = 0; c < cols; c++) {
        rk_node_parameter(run, node, 0)->gradient[c] = node->fixed[c];
        rk_node_parameter(run, node, 1)->gradient[c] = node->fixed[cols + c];
    }
    return RK_OK;
}

const rk_op rk_op_layer_norm = {
    .name = "layer_norm", .min_inputs = 1, .max_inputs = 1, .build = build, .forward_block = forward_block, .backward_block = backward_block, .backward = backward};
