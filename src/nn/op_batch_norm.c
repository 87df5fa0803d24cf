/* Each of the sample's values over the batch (Ioffe and Szegedy 2015): y = gamma (x - mean) / sqrt(var + epsilon) + beta, with the batch's mean
 * and biased variance in training, and the running ones in prediction. The running variance takes the unbiased one, as PyTorch's does. */
#include <math.h>
#include <string.h>

#include "nn/op.h"

static rk_status build(rk_graph *graph, rk_node *node) {
    node->shape = rk_in_shape(graph, node, 0);
    if (node->options.epsilon == 0) node->options.epsilon = 1e-5;
    if (node->options.momentum == 0) node->options.momentum = 0.1;
    int64_t width = rk_width(node->shape);
    node->partial_width = 2 * width;
    node->fixed_width = 4 * width; /* mean, 1/deviation, and two sums of backward */
    rk_initializer ones = {.kind = RK_INIT_ONES}, zeros = {.kind = RK_INIT_ZEROS};
    RK_TRY(rk_node_add_parameter(graph, node, "gamma", 1, width, &ones, true));
    RK_TRY(rk_node_add_parameter(graph, node, "beta", 1, width, &zeros, true));
    RK_TRY(rk_node_add_state(node, "running_mean", 0));
    return rk_node_add_state(node, "running_variance", 1);
}

static void add_values(const rk_run *run, const rk_node *node, int64_t first, int64_t last, rk_real *partial) {
    int64_t width = rk_width(node->shape);
    for (int64_t s = first; s < last; s++)
        for (int64_t c = 0; c < width; c++) partial[c] += rk_in(run, node, 0)[s * width + c];
}

static void add_squares(const rk_run *run, const rk_node *node, int64_t first, int64_t last, rk_real *partial) {
    int64_t width = rk_width(node->shape);
    for (int64_t s = first; s < last; s++)
        for (int64_t c = 0; c < width; c++) {
            rk_real d = rk_in(run, node, 0)[s * width + c] - node->fixed[c];
            partial[c] += d * d;
        }
}

static void batch_statistics(const rk_run *run, rk_node *node) {
    int64_t width = rk_width(node->shape), n = run->n;
    rk_real *mean = node->fixed, *scale = node->fixed + width;
    rk_sum_blocks(run, node, add_values, width, mean);
    for (int64_t c = 0; c < width; c++) mean[c] /= (rk_real)n;
    rk_sum_blocks(run, node, add_squares, width, scale);
    double momentum = node->options.momentum;
    for (int64_t c = 0; c < width; c++) {
        double squares = scale[c];
        scale[c] = (rk_real)(1 / sqrt(squares / (double)n + node->options.epsilon));
        double unbiased = n > 1 ? squares / (double)(n - 1) : squares;
        node->states[0][c] = (rk_real)((1 - momentum) * node->states[0][c] + momentum * mean[c]);
        node->states[1][c] = (rk_real)((1 - momentum) * node->states[1][c] + momentum * unbiased);
    }
}

static void normalize(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    int64_t width = rk_width(node->shape);
    const rk_real *mean = node->fixed, *scale = node->fixed + width, *x = rk_in(run, node, 0);
    const rk_real *gamma = rk_node_parameter(run, node, 0)->value, *beta = rk_node_parameter(run, node, 1)->value;
    for (int64_t s = first; s < last; s++)
        for (int64_t c = 0; c < width; c++) node->data[s * width + c] = gamma[c] * ((x[s * width + c] - mean[c]) * scale[c]) + beta[c];
}

static rk_status forward(const rk_run *run, rk_node *node) {
    int64_t width = rk_width(node->shape);
    if (run->n == 0) return RK_OK;
    if (run->training) {
        batch_statistics(run, node);
    } else {
        memcpy(node->fixed, node->states[0], (size_t)width * sizeof *node->fixed);
        for (int64_t c = 0; c < width; c++) node->fixed[width + c] = (rk_real)(1 / sqrt((double)node->states[1][c] + node->options.epsilon));
    }
    rk_for_blocks(run, node, normalize);
    return RK_OK;
}

static void add_gradients(const rk_run *run, const rk_node *node, int64_t first, int64_t last, rk_real *partial) {
    int64_t width = rk_width(node->shape);
    const rk_real *mean = node->fixed, *scale = node->fixed + width, *x = rk_in(run, node, 0);
    for (int64_t s = first; s < last; s++)
        for (int64_t c = 0; c < width; c++) {
            rk_real dy = node->gradient[s * width + c];
            partial[c] += dy * ((x[s * width + c] - mean[c]) * scale[c]);
            partial[width + c] += dy;
        }
}

static void input_gradient(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    int64_t width = rk_width(node->shape);
    const rk_real *mean = node->fixed, *scale = node->fixed + width, *dots = node->fixed + 2 * width, *sums = node->fixed + 3 * width;
    const rk_real *x = rk_in(run, node, 0), *gamma = rk_node_parameter(run, node, 0)->value;
    rk_real *dx = rk_in_gradient(run, node, 0), inverse = (rk_real)(1.0 / (double)run->n);
    for (int64_t s = first; s < last; s++)
        for (int64_t c = 0; c < width; c++) {
            rk_real hat = (x[s * width + c] - mean[c]) * scale[c];
            dx[s * width + c] += gamma[c] * scale[c] * (node->gradient[s * width + c] - inverse * (sums[c] + hat * dots[c]));
        }
}

static rk_status backward(const rk_run *run, rk_node *node) {
    int64_t width = rk_width(node->shape);
    rk_sum_blocks(run, node, add_gradients, 2 * width, node->fixed + 2 * width);
    memcpy(rk_node_parameter(run, node, 0)->gradient, node->fixed + 2 * width, (size_t)width * sizeof *node->fixed);
    memcpy(rk_node_parameter(run, node, 1)->gradient, node->fixed + 3 * width, (size_t)width * sizeof *node->fixed);
    rk_for_blocks(run, node, input_gradient);
    return RK_OK;
}

const rk_op rk_op_batch_norm = {.name = "batch_norm", .min_inputs = 1, .max_inputs = 1, .build = build, .forward = forward, .backward = backward};
