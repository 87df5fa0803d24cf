/* Each of the sample's values over the batch (Ioffe and Szegedy 2015): y = gamma (x - mean) / sqrt(var +
 * epsilon) + beta, with the batch's mean and biased variance in training, and the running ones in prediction.
 * The running variance takes the unbiased one, as PyTorch's does. It also does the work of a relu and a
 * dropout behind it (node->does), so that values pass through the caches once, not three times. */
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "nn/graph/graph_internal.h"

static rk_status batch_norm_build(rk_graph *graph, rk_node *node) {
    node->shape = rk_node_input_shape(graph, node, 0);
    if (node->options.epsilon == 0) node->options.epsilon = 1e-5;
    if (node->options.momentum == 0) node->options.momentum = 0.1;
    int64_t width = rk_shape_size(node->shape);
    node->gather_width = 2 * width;
    node->sums_width = 4 * width; /* mean, 1/deviation, and two sums of backward */
    rk_initializer ones = {.kind = RK_INIT_ONES}, zeros = {.kind = RK_INIT_ZEROS};
    RK_TRY(rk_node_add_parameter(graph, node, "gamma", 1, width, &ones, true));
    RK_TRY(rk_node_add_parameter(graph, node, "beta", 1, width, &zeros, true));
    RK_TRY(rk_node_add_state(node, "running_mean", 0));
    return rk_node_add_state(node, "running_variance", 1);
}

static const rk_node *last_node(const rk_node *node) {
    return node->does ? node->does : node;
}

/* A block's values and what `combine` and `prepare` have kept of the batch. */
static rk_batch_norm_args norm_args(const rk_run *run, const rk_node *node, rk_real *out) {
    int64_t width = rk_shape_size(node->shape);
    bool drops = last_node(node)->op == &rk_op_dropout && run->training;
    return (rk_batch_norm_args){.n = run->n,
                                .width = width,
                                .x = rk_node_input(run, node, 0),
                                .mean = node->sums,
                                .scale = node->sums + width,
                                .dots = node->sums + 2 * width,
                                .sums = node->sums + 3 * width,
                                .gamma = rk_node_parameter(run, node, 0),
                                .beta = rk_node_parameter(run, node, 1),
                                .inverse = (rk_real)(1.0 / (double)run->batch),
                                .out = out,
                                .relu = node->does != NULL,
                                .kept = drops ? rk_dropout_kept_values(run, node->does) : NULL,
                                .keep = drops ? rk_dropout_rule_of(run->graph, node->does).keep : 1};
}

enum { MEANS, SQUARES, N_PASSES };

static void batch_norm_gather(const rk_run *run, const rk_node *node, int32_t pass, rk_real *partial) {
    rk_batch_norm_args args = norm_args(run, node, partial);
    if (pass == MEANS) {
        rk_column_sums(args.x, args.n, args.width, partial);
    } else if (pass == SQUARES) {
        rk_batch_norm_squares(&args);
    } else {
        args.dy = rk_node_output_gradient(run, last_node(node));
        rk_batch_norm_gradient_sums(&args);
    }
}

static void batch_norm_combine(rk_node *node, int32_t pass, const rk_real *sums, int64_t n) {
    int64_t width = rk_shape_size(node->shape);
    rk_real *mean = node->sums, *scale = mean + width;
    double momentum = node->options.momentum;
    if (pass == N_PASSES) memcpy(node->sums + 2 * width, sums, (size_t)(2 * width) * sizeof *sums);
    for (int64_t c = 0; c < width && pass == MEANS; c++) mean[c] = sums[c] / (rk_real)n;
    for (int64_t c = 0; c < width && pass == SQUARES; c++) {
        double squares = sums[c], unbiased = n > 1 ? squares / (double)(n - 1) : squares;
        scale[c] = (rk_real)(1 / sqrt(squares / (double)n + node->options.epsilon));
        node->states[0][c] = (rk_real)((1 - momentum) * node->states[0][c] + momentum * mean[c]);
        node->states[1][c] = (rk_real)((1 - momentum) * node->states[1][c] + momentum * unbiased);
    }
}

/* In prediction the running statistics stand for the batch's. */
static rk_status batch_norm_prepare(const rk_graph *graph, rk_node *node, bool training) {
    (void)graph;
    int64_t width = rk_shape_size(node->shape);
    if (training) return RK_OK;
    memcpy(node->sums, node->states[0], (size_t)width * sizeof *node->sums);
    for (int64_t c = 0; c < width; c++)
        node->sums[width + c] = (rk_real)(1 / sqrt((double)node->states[1][c] + node->options.epsilon));
    return RK_OK;
}

static rk_status batch_norm_forward(const rk_run *run, const rk_node *node) {
    rk_batch_norm_args args = norm_args(run, node, rk_node_output(run, last_node(node)));
    if (args.kept) rk_dropout_draw_kept_values(run, node->does);
    rk_batch_norm_forward(&args);
    return RK_OK;
}

static rk_status batch_norm_backward(const rk_run *run, const rk_node *node) {
    rk_batch_norm_args args = norm_args(run, node, rk_node_input_gradient(run, node, 0));
    args.dy = rk_node_output_gradient(run, last_node(node));
    args.add = !rk_node_writes_gradient_first(node, 0);
    rk_batch_norm_backward(&args);
    if (run->base + run->first > 0) return RK_OK; /* the batch's sums are added once */
    rk_real *dgamma = rk_node_parameter_gradient(run, node, 0),
            *dbeta = rk_node_parameter_gradient(run, node, 1);
    for (int64_t c = 0; c < args.width; c++) {
        dgamma[c] += args.dots[c];
        dbeta[c] += args.sums[c];
    }
    return RK_OK;
}

const rk_op rk_op_batch_norm = {.name = "batch_norm",
                                .min_inputs = 1,
                                .max_inputs = 1,
                                .is_elementwise = true,
                                .writes_gradient = true,
                                .options = RK_OPTION_epsilon | RK_OPTION_momentum,
                                .build = batch_norm_build,
                                .prepare = batch_norm_prepare,
                                .forward = batch_norm_forward,
                                .backward = batch_norm_backward,
                                .n_passes = N_PASSES,
                                .gather = batch_norm_gather,
                                .combine = batch_norm_combine};
