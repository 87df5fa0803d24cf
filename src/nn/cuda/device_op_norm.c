/* softmax, layer_norm, batch_norm, l2_normalize. */
#include "nn/cuda/device_op.h"

static void softmax_forward(const rk_device_run *run, const rk_node *node) {
    rk_cuda_softmax(run->stream, run->n * node->shape.rows, node->shape.cols,
                    rk_device_node_input(run, node, 0), rk_device_node_output(run, node));
}

static void softmax_backward(const rk_device_run *run, const rk_node *node) {
    rk_cuda_softmax_backward(run->stream, run->n * node->shape.rows, node->shape.cols,
                             rk_device_node_output(run, node), rk_device_node_output_gradient(run, node),
                             rk_device_node_input_gradient(run, node, 0),
                             rk_node_writes_gradient_first(node, 0));
}

const rk_device_op rk_device_op_softmax = {
    .name = "softmax", .forward = softmax_forward, .backward = softmax_backward};

static double epsilon_of_node(const rk_node *node) {
    return node->options.epsilon > 0 ? node->options.epsilon : 1e-12;
}

static void l2_normalize_forward(const rk_device_run *run, const rk_node *node) {
    rk_cuda_l2_normalize(run->stream, run->n * node->shape.rows, node->shape.cols, epsilon_of_node(node),
                         rk_device_node_input(run, node, 0), rk_device_node_output(run, node));
}

static void l2_normalize_backward(const rk_device_run *run, const rk_node *node) {
    rk_cuda_l2_normalize_backward(run->stream, run->n * node->shape.rows, node->shape.cols,
                                  epsilon_of_node(node), rk_device_node_input(run, node, 0),
                                  rk_device_node_output(run, node), rk_device_node_output_gradient(run, node),
                                  rk_device_node_input_gradient(run, node, 0),
                                  rk_node_writes_gradient_first(node, 0));
}

const rk_device_op rk_device_op_l2_normalize = {
    .name = "l2_normalize", .forward = l2_normalize_forward, .backward = l2_normalize_backward};

static int64_t count_scale_rows(const rk_node *node) {
    return node->options.by_row ? node->shape.rows : 1;
}

static void layer_norm_forward(const rk_device_run *run, const rk_node *node) {
    rk_cuda_layer_norm(run->stream, run->n * node->shape.rows, node->shape.cols, count_scale_rows(node),
                       node->options.epsilon, rk_device_node_input(run, node, 0),
                       rk_device_parameter(run, node, 0), rk_device_parameter(run, node, 1),
                       rk_device_node_output(run, node), rk_device_node_saved(run, node));
}

/* Gamma's and beta's gradients are sums over the rows that share them: all rows, or the samples. */
static void layer_norm_backward(const rk_device_run *run, const rk_node *node) {
    int64_t rows = run->n * node->shape.rows, cols = node->shape.cols, own = count_scale_rows(node);
    float *dy = rk_device_node_output_gradient(run, node);
    const float *x = rk_device_node_input(run, node, 0), *saved = rk_device_node_saved(run, node);
    rk_cuda_sum_args sum = {.kind = RK_CUDA_BY_ROW,
                            .rows = rows / own,
                            .cols = own * cols,
                            .span = cols,
                            .x = dy,
                            .y = x,
                            .a = saved,
                            .out = rk_device_parameter_gradient(run, node, 0),
                            .out_plain = rk_device_parameter_gradient(run, node, 1),
                            .partials = rk_device_scratch(run)};
    rk_cuda_column_sums(run->stream, &sum);
    rk_cuda_layer_norm_backward(run->stream, rows, cols, own, x, rk_device_parameter(run, node, 0), saved, dy,
                                rk_device_node_input_gradient(run, node, 0),
                                rk_node_writes_gradient_first(node, 0));
}

static int64_t layer_norm_scratch(const rk_graph *graph, const rk_node *node, int64_t n) {
    (void)graph;
    int64_t own = count_scale_rows(node);
    return rk_cuda_sum_scratch_floats(n * node->shape.rows / own, own * node->shape.cols);
}

const rk_device_op rk_device_op_layer_norm = {.name = "layer_norm",
                                              .scratch = layer_norm_scratch,
                                              .forward = layer_norm_forward,
                                              .backward = layer_norm_backward};

static void batch_norm_forward(const rk_device_run *run, const rk_node *node) {
    int64_t width = rk_shape_size(node->shape);
    const float *x = rk_device_node_input(run, node, 0);
    rk_cuda_batch_norm norm = {.mean = rk_device_node_batch_sums(run, node),
                               .scale = rk_device_node_batch_sums(run, node) + width,
                               .running_mean = rk_device_node_state(run, node, 0),
                               .running_variance = rk_device_node_state(run, node, 1),
                               .epsilon = node->options.epsilon,
                               .momentum = node->options.momentum};
    rk_cuda_sum_args sum = {.kind = RK_CUDA_PLAIN,
                            .rows = run->n,
                            .cols = width,
                            .x = x,
                            .divisor = (double)run->total,
                            .out = norm.mean,
                            .partials = rk_device_scratch(run)};
    if (run->training) {
        rk_cuda_column_sums(run->stream, &sum);
        rk_device_all_reduce(run, norm.mean, width);
        sum.kind = RK_CUDA_SQUARES;
        sum.a = norm.mean;
        sum.divisor = 1;
        sum.out = norm.scale;
        rk_cuda_column_sums(run->stream, &sum);
        rk_device_all_reduce(run, norm.scale, width);
        rk_cuda_batch_norm_statistics(run->stream, run->total, width, &norm);
    } else {
        rk_cuda_batch_norm_use_running(run->stream, width, &norm);
    }
    rk_cuda_batch_norm_forward(run->stream, run->n, width, norm.mean, norm.scale,
                               rk_device_parameter(run, node, 0), rk_device_parameter(run, node, 1), x,
                               rk_device_node_output(run, node));
}

/* The batch's, of all ranks: gamma's and beta's gradients of this one's samples, summed elsewhere, stay as
 * they are. */
static void all_reduce_dots(const rk_device_run *run, int64_t width, float *dots, float *sums, float *all) {
    size_t n_bytes = (size_t)width * sizeof *all;
    rk_stream_copy(run->stream, all, dots, n_bytes);
    rk_stream_copy(run->stream, all + width, sums, n_bytes);
    rk_device_all_reduce(run, all, 2 * width);
}

static void batch_norm_backward(const rk_device_run *run, const rk_node *node) {
    int64_t width = rk_shape_size(node->shape);
    const float *x = rk_device_node_input(run, node, 0), *mean = rk_device_node_batch_sums(run, node),
                *scale = mean + width;
    float *dy = rk_device_node_output_gradient(run, node), *dots = rk_device_parameter_gradient(run, node, 0),
          *sums = rk_device_parameter_gradient(run, node, 1);
    rk_cuda_sum_args sum = {.kind = RK_CUDA_BY_COLUMN,
                            .rows = run->n,
                            .cols = width,
                            .x = dy,
                            .y = x,
                            .a = mean,
                            .b = scale,
                            .out = dots,
                            .out_plain = sums,
                            .partials = rk_device_scratch(run)};
    rk_cuda_column_sums(run->stream, &sum);
    if (!rk_device_is_one_rank(run)) {
        float *all = rk_device_node_batch_sums(run, node) + 2 * width;
        all_reduce_dots(run, width, dots, sums, all);
        dots = all;
        sums = all + width;
    }
    rk_cuda_batch_norm_backward(
        run->stream, run->n, run->total, width, mean, scale, rk_device_parameter(run, node, 0), dots, sums, x,
        dy, rk_device_node_input_gradient(run, node, 0), rk_node_writes_gradient_first(node, 0));
}

const rk_device_op rk_device_op_batch_norm = {.name = "batch_norm",
                                              .scratch = rk_device_sum_scratch,
                                              .forward = batch_norm_forward,
                                              .backward = batch_norm_backward};
