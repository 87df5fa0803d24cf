/* [rows, cols] -> [1, cols]: the sum of the rows. */
#include <string.h>

#include "nn/graph/op.h"

static rk_status sum_rows_build(rk_graph *graph, rk_node *node) {
    node->shape = (rk_shape){1, rk_node_input_shape(graph, node, 0).cols};
    return RK_OK;
}

static rk_status sum_rows_forward(const rk_run *run, const rk_node *node) {
    rk_shape from = rk_node_input_shape(run->graph, node, 0);
    const rk_real *x = rk_node_input(run, node, 0);
    rk_real *y = rk_node_output(run, node);
    memset(y, 0, (size_t)(run->n * from.cols) * sizeof *y);
    for (int64_t s = 0; s < run->n; s++, y += from.cols)
        for (int32_t r = 0; r < from.rows; r++, x += from.cols)
            for (int32_t c = 0; c < from.cols; c++) y[c] += x[c];
    return RK_OK;
}

static rk_status sum_rows_backward(const rk_run *run, const rk_node *node) {
    rk_shape from = rk_node_input_shape(run->graph, node, 0);
    const rk_real *dy = rk_node_output_gradient(run, node);
    rk_real *dx = rk_node_input_gradient(run, node, 0);
    for (int64_t s = 0; s < run->n; s++, dy += from.cols)
        for (int32_t r = 0; r < from.rows; r++, dx += from.cols)
            for (int32_t c = 0; c < from.cols; c++) dx[c] += dy[c];
    return RK_OK;
}

const rk_op rk_op_sum_rows = {.name = "sum_rows",
                              .min_inputs = 1,
                              .max_inputs = 1,
                              .build = sum_rows_build,
                              .forward = sum_rows_forward,
                              .backward = sum_rows_backward};
