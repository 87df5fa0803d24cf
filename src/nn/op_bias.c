/* y = x + b, b over the flattened sample's columns, zeros at first. */
#include "nn/op.h"

static rk_status build(rk_graph *graph, rk_node *node) {
    node->shape = rk_in_shape(graph, node, 0);
    node->partial_width = rk_width(node->shape);
    rk_initializer zeros = {.kind = RK_INIT_ZEROS};
    return rk_node_add_parameter(graph, node, "bias", 1, rk_width(node->shape), &zeros, true);
}

static void forward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    int64_t width = rk_width(node->shape);
    const rk_real *b = rk_node_parameter(run, node, 0)->value, *x = rk_in(run, node, 0);
    for (int64_t s = first; s < last; s++)
        for (int64_t c = 0; c < width; c++) node->data[s * width + c] = x[s * width + c] + b[c];
}

static void backward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    int64_t width = rk_width(node->shape);
    rk_real *dx = rk_in_gradient(run, node, 0);
    for (int64_t i = first * width; i < last * width; i++) dx[i] += node->gradient[i];
}

static void add_gradient(const rk_run *run, const rk_node *node, int64_t first, int64_t last, rk_real *partial) {
    (void)run;
    int64_t width = rk_width(node->shape);
    for (int64_t s = first; s < last; s++)
        for (int64_t c = 0; c < width; c++) partial[c] += node->gradient[s * width + c];
}

static rk_status backward(const rk_run *run, rk_node *node) {
    rk_sum_blocks(run, node, add_gradient, rk_width(node->shape), rk_node_parameter(run, node, 0)->gradient);
    return RK_OK;
}

const rk_op rk_op_bias = {
    .name = "bias", .min_inputs = 1, .max_inputs = 1, .build = build, .forward_block = forward_block, .backward_block = backward_block, .backward = backward};
