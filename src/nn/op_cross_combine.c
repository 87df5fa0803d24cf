/* The end of a cross layer of DCN v2 (Wang et al. 2021): z = x0 * y + x, elementwise; inputs x0, y, x. */
#include "nn/op.h"

static rk_status build(rk_graph *graph, rk_node *node) {
    node->shape = rk_in_shape(graph, node, 0);
    return rk_same_shapes(graph, node);
}

static void forward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    int64_t width = rk_width(node->shape);
    const rk_real *x0 = rk_in(run, node, 0), *y = rk_in(run, node, 1), *x = rk_in(run, node, 2);
    for (int64_t i = first * width; i < last * width; i++) node->data[i] = x0[i] * y[i] + x[i];
}

static void backward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    int64_t width = rk_width(node->shape);
    const rk_real *x0 = rk_in(run, node, 0), *y = rk_in(run, node, 1), *dz = node->gradient;
    rk_real *dx0 = rk_in_gradient(run, node, 0), *dy = rk_in_gradient(run, node, 1), *dx = rk_in_gradient(run, node, 2);
    for (int64_t i = first * width; i < last * width; i++) {
        dx0[i] += dz[i] * y[i];
        dy[i] += dz[i] * x0[i];
        dx[i] += dz[i];
    }
}

const rk_op rk_op_cross_combine = {
    .name = "cross_combine", .min_inputs = 3, .max_inputs = 3, .build = build, .forward_block = forward_block, .backward_block = backward_block};
