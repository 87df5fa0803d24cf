/* A small matrix product of each sample, as a mixture of experts takes it: inputs gates [m, e] and rows
 * [e, cols]; y [m, cols] = gates rows. */
#include "nn/graph/op.h"

static rk_status batch_matmul_build(rk_graph *graph, rk_node *node) {
    rk_shape gates = rk_node_input_shape(graph, node, 0), rows = rk_node_input_shape(graph, node, 1);
    RK_FAIL_IF(gates.cols != rows.rows, RK_INVALID_ARGUMENT,
               "gates of shape [%d, %d] do not fit rows of shape [%d, %d]", gates.rows, gates.cols, rows.rows,
               rows.cols);
    node->shape = (rk_shape){gates.rows, rows.cols};
    return RK_OK;
}

static rk_status batch_matmul_forward(const rk_run *run, const rk_node *node) {
    int64_t m = node->shape.rows, cols = node->shape.cols, e = rk_node_input_shape(run->graph, node, 1).rows;
    const rk_real *g = rk_node_input(run, node, 0), *x = rk_node_input(run, node, 1);
    rk_real *y = rk_node_output(run, node);
    for (int64_t s = 0; s < run->n; s++, x += e * cols)
        for (int64_t i = 0; i < m; i++, g += e, y += cols) {
            for (int64_t c = 0; c < cols; c++) y[c] = g[0] * x[c];
            for (int64_t k = 1; k < e; k++)
                for (int64_t c = 0; c < cols; c++) y[c] += g[k] * x[k * cols + c];
        }
    return RK_OK;
}

static rk_status batch_matmul_backward(const rk_run *run, const rk_node *node) {
    int64_t m = node->shape.rows, cols = node->shape.cols, e = rk_node_input_shape(run->graph, node, 1).rows;
    const rk_real *g = rk_node_input(run, node, 0), *x = rk_node_input(run, node, 1),
                  *dy = rk_node_output_gradient(run, node);
    rk_real *dg = rk_node_input_gradient(run, node, 0), *dx = rk_node_input_gradient(run, node, 1);
    for (int64_t s = 0; s < run->n; s++, x += e * cols, dx += e * cols)
        for (int64_t i = 0; i < m; i++, g += e, dg += e, dy += cols)
            for (int64_t k = 0; k < e; k++) {
                rk_real dot = 0;
                for (int64_t c = 0; c < cols; c++) dot += dy[c] * x[k * cols + c];
                for (int64_t c = 0; c < cols; c++) dx[k * cols + c] += g[k] * dy[c];
                dg[k] += dot;
            }
    return RK_OK;
}

const rk_op rk_op_batch_matmul = {.name = "batch_matmul",
                                  .min_inputs = 2,
                                  .max_inputs = 2,
                                  .build = batch_matmul_build,
                                  .forward = batch_matmul_forward,
                                  .backward = batch_matmul_backward};
