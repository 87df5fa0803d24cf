/* A cross layer of DCN (Wang et al. 2017): y = x0 (x . w) + b + x; inputs x0, x. */
#include <math.h>

#include "nn/op.h"

static rk_status build(rk_graph *graph, rk_node *node) {
    RK_TRY(rk_same_shapes(graph, node));
    node->shape = rk_in_shape(graph, node, 0);
    int64_t width = rk_width(node->shape);
    node->saved_width = 1;   /* x . w */
    node->scratch_width = 1; /* its gradient */
    node->partial_width = width;
    double bound = sqrt(6.0 / (double)(width + 1));
    rk_initializer uniform = {.kind = RK_INIT_UNIFORM, .min = -bound, .max = bound}, zeros = {.kind = RK_INIT_ZEROS};
    RK_TRY(rk_node_add_parameter(graph, node, "weight", 1, width, &uniform, false));
    return rk_node_add_parameter(graph, node, "bias", 1, width, &zeros, true);
}

static void forward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    int64_t width = rk_width(node->shape);
    const rk_real *w = rk_node_parameter(run, node, 0)->value, *b = rk_node_parameter(run, node, 1)->value;
    for (int64_t s = first; s < last; s++) {
        const rk_real *x0 = rk_in(run, node, 0) + s * width, *x = rk_in(run, node, 1) + s * width;
        rk_real dot = 0, *y = node->data + s * width;
        for (int64_t c = 0; c < width; c++) dot += x[c] * w[c];
        for (int64_t c = 0; c < width; c++) y[c] = x0[c] * dot + b[c] + x[c];
        node->saved[s] = dot;
    }
}

static void backward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    int64_t width = rk_width(node->shape);
    const rk_real *w = rk_node_parameter(run, node, 0)->value;
    for (int64_t s = first; s < last; s++) {
        const rk_real *x0 = rk_in(run, node, 0) + s * width, *dy = node->gradient + s * width;
        rk_real *dx0 = rk_in_gradient(run, node, 0) + s * width, *dx = rk_in_gradient(run, node, 1) + s * width, ddot = 0;
        for (int64_t c = 0; c < width; c++) ddot += dy[c] * x0[c];
        for (int64_t c = 0; c < width; c++) {
            dx0[c] += dy[c] * node->saved[s];
            dx[c] += dy[c] + ddot * w[c];
        }
        node->scratch[s] = ddot;
    }
}

static void add_weight(const rk_run *run, const rk_node *node, int64_t first, int64_t last, rk_real *partial) {
    int64_t width = rk_width(node->shape);
    for (int64_t s = first; s < last; s++)
        for (int64_t c = 0; c < width; c++) partial[c] += node->scratch[s] * rk_in(run, node, 1)[s * width + c];
}

static void add_bias(const rk_run *run, const rk_node *node, int64_t first, int64_t last, rk_real *partial) {
    (void)run;
    int64_t width = rk_width(node->shape);
    for (int64_t s = first; s < last; s++)
        for (int64_t c = 0; c < width; c++) partial[c] += node->gradient[s * width + c];
}

static rk_status backward(const rk_run *run, rk_node *node) {
    rk_sum_blocks(run, node, add_weight, rk_width(node->shape), rk_node_parameter(run, node, 0)->gradient);
    rk_sum_blocks(run, node, add_bias, rk_width(node->shape), rk_node_parameter(run, node, 1)->gradient);
    return RK_OK;
}

const rk_op rk_op_cross_v1 = {
    .name = "cross_v1", .min_inputs = 2, .max_inputs = 2, .build = build, .forward_block = forward_block, .backward_block = backward_block, .backward = backward};
