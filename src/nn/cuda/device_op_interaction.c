/* Products among a sample's vectors: fm, dot_interaction, cross_v1. */
#include "nn/cuda/device_op.h"

static void fm_forward(const rk_device_run *run, const rk_node *node) {
    rk_shape from = rk_device_node_input_shape(run, node, 0);
    rk_cuda_fm(run->stream, run->n, from.rows, from.cols, rk_device_node_input(run, node, 0),
               rk_device_node_output(run, node), rk_device_node_saved(run, node));
}

static void fm_backward(const rk_device_run *run, const rk_node *node) {
    rk_shape from = rk_device_node_input_shape(run, node, 0);
    rk_cuda_fm_backward(run->stream, run->n, from.rows, from.cols, rk_device_node_input(run, node, 0),
                        rk_device_node_saved(run, node), rk_device_node_output_gradient(run, node),
                        rk_device_node_input_gradient(run, node, 0), rk_node_writes_gradient_first(node, 0));
}

const rk_device_op rk_device_op_fm = {.name = "fm", .forward = fm_forward, .backward = fm_backward};

static void dot_interaction_forward(const rk_device_run *run, const rk_node *node) {
    rk_shape from = rk_device_node_input_shape(run, node, 0);
    rk_cuda_dot_interaction(run->stream, run->n, from.rows, from.cols, rk_device_node_input(run, node, 0),
                            rk_device_node_output(run, node));
}

static void dot_interaction_backward(const rk_device_run *run, const rk_node *node) {
    rk_shape from = rk_device_node_input_shape(run, node, 0);
    rk_cuda_dot_interaction_backward(
        run->stream, run->n, from.rows, from.cols, rk_device_node_input(run, node, 0),
        rk_device_node_output_gradient(run, node), rk_device_node_input_gradient(run, node, 0),
        rk_node_writes_gradient_first(node, 0));
}

const rk_device_op rk_device_op_dot_interaction = {
    .name = "dot_interaction", .forward = dot_interaction_forward, .backward = dot_interaction_backward};

static void cross_v1_forward(const rk_device_run *run, const rk_node *node) {
    rk_cuda_cross_v1(run->stream, run->n, rk_shape_size(node->shape), rk_device_node_input(run, node, 0),
                     rk_device_node_input(run, node, 1), rk_device_parameter(run, node, 0),
                     rk_device_parameter(run, node, 1), rk_device_node_output(run, node),
                     rk_device_node_saved(run, node));
}

/* Scratch: the gradients of the dots [n], then the columns' sums. */
static int64_t column_sums_offset(int64_t n) {
    return (n + 3) / 4 * 4;
}

static void cross_v1_backward(const rk_device_run *run, const rk_node *node) {
    int64_t width = rk_shape_size(node->shape);
    float *dy = rk_device_node_output_gradient(run, node), *ddots = rk_device_scratch(run),
          *partials = ddots + column_sums_offset(run->n);
    rk_cuda_rowwise_dot(run->stream, run->n, width, dy, rk_device_node_input(run, node, 0), run->n, ddots,
                        true);
    rk_cuda_sum_args weight = {.kind = RK_CUDA_SCALED,
                               .rows = run->n,
                               .cols = width,
                               .span = width,
                               .x = rk_device_node_input(run, node, 1),
                               .y = ddots,
                               .out = rk_device_parameter_gradient(run, node, 0),
                               .partials = partials};
    rk_cuda_sum_args bias = {.kind = RK_CUDA_PLAIN,
                             .rows = run->n,
                             .cols = width,
                             .x = dy,
                             .out = rk_device_parameter_gradient(run, node, 1),
                             .partials = partials};
    rk_cuda_column_sums(run->stream, &weight);
    rk_cuda_column_sums(run->stream, &bias);
    rk_cuda_cross_v1_backward(
        run->stream, run->n, width, rk_device_parameter(run, node, 0), rk_device_node_saved(run, node), ddots,
        dy, rk_device_node_input_gradient(run, node, 0), rk_node_writes_gradient_first(node, 0),
        rk_device_node_input_gradient(run, node, 1), rk_node_writes_gradient_first(node, 1));
}

static int64_t cross_v1_scratch(const rk_graph *graph, const rk_node *node, int64_t n) {
    return column_sums_offset(n) + rk_device_sum_scratch(graph, node, n);
}

const rk_device_op rk_device_op_cross_v1 = {.name = "cross_v1",
                                            .scratch = cross_v1_scratch,
                                            .forward = cross_v1_forward,
                                            .backward = cross_v1_backward};
