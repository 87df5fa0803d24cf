/* -> [1, 1]: the sum of all of a sample's values. */
#include "nn/graph/op.h"

static rk_status sum_all_build(rk_graph *graph, rk_node *node) {
    (void)graph;
    node->shape = (rk_shape){1, 1};
    return RK_OK;
}

static rk_status sum_all_forward(const rk_run *run, const rk_node *node) {
    int64_t width = rk_shape_size(rk_node_input_shape(run->graph, node, 0));
    const rk_real *x = rk_node_input(run, node, 0);
    rk_real *y = rk_node_output(run, node);
    for (int64_t s = 0; s < run->n; s++, x += width) {
        rk_real sum = 0;
        for (int64_t c = 0; c < width; c++) sum += x[c];
        y[s] = sum;
    }
    return RK_OK;
}

static rk_status sum_all_backward(const rk_run *run, const rk_node *node) {
    int64_t width = rk_shape_size(rk_node_input_shape(run->graph, node, 0));
    const rk_real *dy = rk_node_output_gradient(run, node);
    rk_real *dx = rk_node_input_gradient(run, node, 0);
    for (int64_t s = 0; s < run->n; s++, dx += width)
        for (int64_t c = 0; c < width; c++) dx[c] += dy[s];
    return RK_OK;
}

const rk_op rk_op_sum_all = {.name = "sum_all",
                             .min_inputs = 1,
                             .max_inputs = 1,
                             .build = sum_all_build,
                             .forward = sum_all_forward,
                             .backward = sum_all_backward};
