/* Over each row's cols (Ba et al. 2016): y = gamma (x - mean) / sqrt(var + epsilon) + beta, var the biased
 * one; gamma and beta the rows' own if options.by_row. */
#include <math.h>

#include "nn/graph/op.h"

static rk_status layer_norm_build(rk_graph *graph, rk_node *node) {
    node->shape = rk_node_input_shape(graph, node, 0);
    if (node->options.epsilon == 0) node->options.epsilon = 1e-5;
    node->saved_width = 2 * (int64_t)node->shape.rows; /* mean, 1/deviation */
    rk_initializer ones = {.kind = RK_INIT_ONES}, zeros = {.kind = RK_INIT_ZEROS};
    int64_t rows = node->options.by_row ? node->shape.rows : 1;
    RK_TRY(rk_node_add_parameter(graph, node, "gamma", rows, node->shape.cols, &ones, true));
    return rk_node_add_parameter(graph, node, "beta", rows, node->shape.cols, &zeros, true);
}

/* Where row r of the block finds its gamma and beta. */
static int64_t scale_row_of_block_row(const rk_node *node, int64_t r) {
    return node->options.by_row ? r % node->shape.rows * node->shape.cols : 0;
}

static rk_status layer_norm_forward(const rk_run *run, const rk_node *node) {
    int32_t cols = node->shape.cols;
    const rk_real *gamma = rk_node_parameter(run, node, 0), *beta = rk_node_parameter(run, node, 1),
                  *x = rk_node_input(run, node, 0);
    rk_real *y = rk_node_output(run, node), *saved = rk_node_saved(run, node);
    for (int64_t r = 0; r < run->n * node->shape.rows; r++, x += cols, y += cols) {
        int64_t own = scale_row_of_block_row(node, r);
        double mean = 0, var = 0;
        for (int32_t c = 0; c < cols; c++) mean += x[c];
        mean /= cols;
        for (int32_t c = 0; c < cols; c++) var += (x[c] - mean) * (x[c] - mean);
        rk_real m = saved[2 * r] = (rk_real)mean,
                scale = saved[2 * r + 1] = (rk_real)(1 / sqrt(var / cols + node->options.epsilon));
        for (int32_t c = 0; c < cols; c++) y[c] = gamma[own + c] * ((x[c] - m) * scale) + beta[own + c];
    }
    return RK_OK;
}

static rk_status layer_norm_backward(const rk_run *run, const rk_node *node) {
    int32_t cols = node->shape.cols;
    const rk_real *gamma = rk_node_parameter(run, node, 0), *x = rk_node_input(run, node, 0),
                  *dy = rk_node_output_gradient(run, node), *saved = rk_node_saved(run, node);
    rk_real *dx = rk_node_input_gradient(run, node, 0), *dgamma = rk_node_parameter_gradient(run, node, 0),
            *dbeta = rk_node_parameter_gradient(run, node, 1);
    for (int64_t r = 0; r < run->n * node->shape.rows; r++, x += cols, dx += cols, dy += cols) {
        rk_real m = saved[2 * r], scale = saved[2 * r + 1];
        int64_t own = scale_row_of_block_row(node, r);
        double sum = 0, dot = 0;
        for (int32_t c = 0; c < cols; c++) {
            double g = (double)dy[c] * gamma[own + c];
            sum += g;
            dot += g * ((x[c] - m) * scale);
        }
        rk_real mean = (rk_real)(sum / cols), slope = (rk_real)(dot / cols);
        for (int32_t c = 0; c < cols; c++) {
            dx[c] += scale * (dy[c] * gamma[own + c] - mean - (x[c] - m) * scale * slope);
            dgamma[own + c] += dy[c] * ((x[c] - m) * scale);
            dbeta[own + c] += dy[c];
        }
    }
    return RK_OK;
}

const rk_op rk_op_layer_norm = {.name = "layer_norm",
                                .min_inputs = 1,
                                .max_inputs = 1,
                                .options = RK_OPTION_by_row | RK_OPTION_epsilon,
                                .build = layer_norm_build,
                                .forward = layer_norm_forward,
                                .backward = layer_norm_backward};
