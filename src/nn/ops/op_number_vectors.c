/* A vector a number (Song et al. 2019, AutoInt, equation 4): x [1, n] -> [n, units], y_i = x_i v_i, with v
 * [n, units] learned. options: units. */
#include <math.h>

#include "kernels/inline/lane_sum.h"
#include "nn/graph/op.h"

static rk_status number_vectors_build(rk_graph *graph, rk_node *node) {
    int64_t n = rk_shape_size(rk_node_input_shape(graph, node, 0));
    int32_t units = node->options.units;
    RK_FAIL_IF(units < 1, RK_INVALID_ARGUMENT, "'units' must be 1 or more, not %d", units);
    node->shape = (rk_shape){(int32_t)n, units};
    rk_initializer normal = {.kind = RK_INIT_TRUNCATED_NORMAL,
                             .stddev = 1 / sqrt((double)units)}; /* as rows of tables */
    return rk_node_add_parameter(graph, node, "vectors", n, units, &normal, false);
}

static rk_status number_vectors_forward(const rk_run *run, const rk_node *node) {
    int32_t n = node->shape.rows, units = node->shape.cols;
    const rk_real *v = rk_node_parameter(run, node, 0), *x = rk_node_input(run, node, 0);
    rk_real *y = rk_node_output(run, node);
    for (int64_t s = 0; s < run->n; s++, x += n)
        for (int32_t i = 0; i < n; i++, y += units)
            for (int32_t u = 0; u < units; u++) y[u] = x[i] * v[(int64_t)i * units + u];
    return RK_OK;
}

static rk_status number_vectors_backward(const rk_run *run, const rk_node *node) {
    int32_t n = node->shape.rows, units = node->shape.cols;
    const rk_real *v = rk_node_parameter(run, node, 0), *x = rk_node_input(run, node, 0),
                  *dy = rk_node_output_gradient(run, node);
    rk_real *dx = rk_node_input_gradient(run, node, 0), *dv = rk_node_parameter_gradient(run, node, 0);
    for (int64_t s = 0; s < run->n; s++, x += n, dx += n)
        for (int32_t i = 0; i < n; i++, dy += units) {
            dx[i] += rk_dot_product_by_lanes(dy, v + (int64_t)i * units, units);
            for (int32_t u = 0; u < units; u++) dv[(int64_t)i * units + u] += x[i] * dy[u];
        }
    return RK_OK;
}

const rk_op rk_op_number_vectors = {.name = "number_vectors",
                                    .min_inputs = 1,
                                    .max_inputs = 1,
                                    .options = RK_OPTION_units,
                                    .build = number_vectors_build,
                                    .forward = number_vectors_forward,
                                    .backward = number_vectors_backward};
