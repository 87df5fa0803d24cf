/* A cross layer of DCN (Wang et al. 2017): y = x0 (x . w) + b + x; inputs x0, x. */
#include <math.h>

#include "kernels/inline/lane_sum.h"
#include "nn/graph/op.h"

static rk_status cross_v1_build(rk_graph *graph, rk_node *node) {
    RK_TRY(rk_node_check_same_shapes(graph, node, node->n_inputs));
    node->shape = rk_node_input_shape(graph, node, 0);
    int64_t width = rk_shape_size(node->shape);
    node->saved_width = 1; /* x . w */
    double bound = sqrt(6.0 / (double)(width + 1));
    rk_initializer uniform = {.kind = RK_INIT_UNIFORM, .min = -bound, .max = bound},
                   zeros = {.kind = RK_INIT_ZEROS};
    RK_TRY(rk_node_add_parameter(graph, node, "weight", 1, width, &uniform, false));
    return rk_node_add_parameter(graph, node, "bias", 1, width, &zeros, true);
}

static rk_status cross_v1_forward(const rk_run *run, const rk_node *node) {
    int64_t width = rk_shape_size(node->shape);
    const rk_real *w = rk_node_parameter(run, node, 0), *b = rk_node_parameter(run, node, 1),
                  *x0 = rk_node_input(run, node, 0), *x = rk_node_input(run, node, 1);
    rk_real *y = rk_node_output(run, node), *dots = rk_node_saved(run, node);
    for (int64_t s = 0; s < run->n; s++, x0 += width, x += width, y += width) {
        rk_real dot = dots[s] = rk_dot_product_by_lanes(x, w, width);
        for (int64_t c = 0; c < width; c++) y[c] = x0[c] * dot + b[c] + x[c];
    }
    return RK_OK;
}

static rk_status cross_v1_backward(const rk_run *run, const rk_node *node) {
    int64_t width = rk_shape_size(node->shape);
    const rk_real *w = rk_node_parameter(run, node, 0), *x0 = rk_node_input(run, node, 0),
                  *x = rk_node_input(run, node, 1), *dy = rk_node_output_gradient(run, node),
                  *dots = rk_node_saved(run, node);
    rk_real *dx0 = rk_node_input_gradient(run, node, 0), *dx = rk_node_input_gradient(run, node, 1);
    rk_real *dw = rk_node_parameter_gradient(run, node, 0), *db = rk_node_parameter_gradient(run, node, 1);
    for (int64_t s = 0; s < run->n; s++, x0 += width, x += width, dx0 += width, dx += width, dy += width) {
        rk_real ddot = rk_dot_product_by_lanes(dy, x0, width);
        for (int64_t c = 0; c < width; c++) {
            dx0[c] += dy[c] * dots[s];
            dx[c] += dy[c] + ddot * w[c];
            dw[c] += ddot * x[c];
            db[c] += dy[c];
        }
    }
    return RK_OK;
}

const rk_op rk_op_cross_v1 = {.name = "cross_v1",
                              .min_inputs = 2,
                              .max_inputs = 2,
                              .build = cross_v1_build,
                              .forward = cross_v1_forward,
                              .backward = cross_v1_backward};
