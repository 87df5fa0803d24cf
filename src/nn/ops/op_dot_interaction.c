/* The dot products of all pairs of rows (Naumov et al. 2019, DLRM): [rows, cols] -> [1, rows (rows-1) / 2],
 * lower triangle, row by row. */
#include "kernels/kernels.h"
#include "nn/graph/op.h"

static rk_status dot_interaction_build(rk_graph *graph, rk_node *node) {
    rk_shape from = rk_node_input_shape(graph, node, 0);
    RK_FAIL_IF(from.rows < 2, RK_INVALID_ARGUMENT, "needs two rows or more, not %d", from.rows);
    RK_FAIL_IF((int64_t)from.rows * (from.rows - 1) / 2 > INT32_MAX, RK_INVALID_ARGUMENT,
               "too many pairs of %d rows", from.rows);
    node->shape = (rk_shape){1, (int32_t)((int64_t)from.rows * (from.rows - 1) / 2)};
    return RK_OK;
}

static rk_status dot_interaction_forward(const rk_run *run, const rk_node *node) {
    rk_shape from = rk_node_input_shape(run->graph, node, 0);
    rk_interaction_forward(rk_node_input(run, node, 0), run->n, from.rows, from.cols,
                           rk_node_output(run, node));
    return RK_OK;
}

static rk_status dot_interaction_backward(const rk_run *run, const rk_node *node) {
    rk_shape from = rk_node_input_shape(run->graph, node, 0);
    rk_interaction_backward(rk_node_input(run, node, 0), rk_node_output_gradient(run, node), run->n,
                            from.rows, from.cols, rk_node_input_gradient(run, node, 0));
    return RK_OK;
}

const rk_op rk_op_dot_interaction = {.name = "dot_interaction",
                                     .min_inputs = 1,
                                     .max_inputs = 1,
                                     .build = dot_interaction_build,
                                     .forward = dot_interaction_forward,
                                     .backward = dot_interaction_backward};
