/* y = x + b, b over the flattened sample's columns, zeros at first. */
#include "nn/graph/op.h"

static rk_status bias_build(rk_graph *graph, rk_node *node) {
    node->shape = rk_node_input_shape(graph, node, 0);
    rk_initializer zeros = {.kind = RK_INIT_ZEROS};
    return rk_node_add_parameter(graph, node, "bias", 1, rk_shape_size(node->shape), &zeros, true);
}

static rk_status bias_forward(const rk_run *run, const rk_node *node) {
    int64_t width = rk_shape_size(node->shape);
    const rk_real *b = rk_node_parameter(run, node, 0), *x = rk_node_input(run, node, 0);
    rk_real *y = rk_node_output(run, node);
    for (int64_t s = 0; s < run->n; s++, x += width, y += width)
        for (int64_t c = 0; c < width; c++) y[c] = x[c] + b[c];
    return RK_OK;
}

static rk_status bias_backward(const rk_run *run, const rk_node *node) {
    int64_t width = rk_shape_size(node->shape);
    const rk_real *dy = rk_node_output_gradient(run, node);
    rk_real *dx = rk_node_input_gradient(run, node, 0), *db = rk_node_parameter_gradient(run, node, 0);
    for (int64_t s = 0; s < run->n; s++, dx += width, dy += width)
        for (int64_t c = 0; c < width; c++) {
            dx[c] += dy[c];
            db[c] += dy[c];
        }
    return RK_OK;
}

const rk_op rk_op_bias = {.name = "bias",
                          .min_inputs = 1,
                          .max_inputs = 1,
                          .build = bias_build,
                          .forward = bias_forward,
                          .backward = bias_backward};
