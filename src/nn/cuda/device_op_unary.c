/* Functions of single values: relu, gelu, sigmoid, tanh; and dropout. */
#include "nn/cuda/device_op.h"

static void unary_forward(const rk_device_run *run, const rk_node *node, rk_cuda_unary_kind kind) {
    rk_cuda_unary(run->stream, kind, rk_device_node_values(run, node), rk_device_node_input(run, node, 0),
                  rk_device_node_output(run, node));
}

static void unary_backward(const rk_device_run *run, const rk_node *node, rk_cuda_unary_kind kind) {
    rk_cuda_unary_backward(
        run->stream, kind, rk_device_node_values(run, node), rk_device_node_input(run, node, 0),
        rk_device_node_output(run, node), rk_device_node_output_gradient(run, node),
        rk_device_node_input_gradient(run, node, 0), rk_node_writes_gradient_first(node, 0));
}

#define RK_DEVICE_UNARY(name_, kind)                                              \
    static void name_##_forward(const rk_device_run *run, const rk_node *node) {  \
        unary_forward(run, node, kind);                                           \
    }                                                                             \
    static void name_##_backward(const rk_device_run *run, const rk_node *node) { \
        unary_backward(run, node, kind);                                          \
    }                                                                             \
    const rk_device_op rk_device_op_##name_ = {                                   \
        .name = #name_, .forward = name_##_forward, .backward = name_##_backward};

RK_DEVICE_UNARY(relu, RK_CUDA_RELU)
RK_DEVICE_UNARY(gelu, RK_CUDA_GELU)
RK_DEVICE_UNARY(sigmoid, RK_CUDA_SIGMOID)
RK_DEVICE_UNARY(tanh, RK_CUDA_TANH)

static rk_cuda_dropout_args mask_of(const rk_device_run *run, const rk_node *node, const rk_graph *graph) {
    rk_dropout_rule rule = rk_dropout_rule_of(graph, node);
    int64_t group = node->options.by_row ? node->shape.cols : 1;
    return (rk_cuda_dropout_args){.n = rk_device_node_values(run, node),
                                  .group = group,
                                  .seed = rule.seed,
                                  .limit = rule.limit,
                                  .keep = rule.keep,
                                  .per_sample = rk_shape_size(node->shape) / group,
                                  .step = run->step};
}

static void dropout_forward(const rk_device_run *run, const rk_node *node) {
    rk_cuda_dropout_args args = mask_of(run, node, rk_device_host_graph(run));
    if (run->training)
        rk_cuda_dropout(run->stream, &args, rk_device_node_input(run, node, 0),
                        rk_device_node_output(run, node), true);
    else
        rk_stream_copy(run->stream, rk_device_node_output(run, node), rk_device_node_input(run, node, 0),
                       (size_t)args.n * sizeof(float));
}

static void dropout_backward(const rk_device_run *run, const rk_node *node) {
    rk_cuda_dropout_args args = mask_of(run, node, rk_device_host_graph(run));
    rk_cuda_dropout(run->stream, &args, rk_device_node_output_gradient(run, node),
                    rk_device_node_input_gradient(run, node, 0), rk_node_writes_gradient_first(node, 0));
}

/* Backward draws the mask anew. */
static int64_t dropout_saved(const rk_graph *graph, const rk_node *node) {
    (void)graph;
    (void)node;
    return 0;
}

const rk_device_op rk_device_op_dropout = {
    .name = "dropout", .saved = dropout_saved, .forward = dropout_forward, .backward = dropout_backward};
