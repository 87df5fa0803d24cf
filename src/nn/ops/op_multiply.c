/* y = a * b, elementwise; b may be [1, 1] (one factor a sample) or [rows, 1] (one a row). */
#include "nn/graph/op.h"

static rk_status multiply_build(rk_graph *graph, rk_node *node) {
    rk_shape a = rk_node_input_shape(graph, node, 0), b = rk_node_input_shape(graph, node, 1);
    bool fits = (b.rows == a.rows || b.rows == 1) && (b.cols == a.cols || b.cols == 1) &&
                !(b.rows == 1 && a.rows > 1 && b.cols > 1);
    RK_FAIL_IF(!fits, RK_INVALID_ARGUMENT, "inputs of shapes [%d, %d] and [%d, %d] cannot be multiplied",
               a.rows, a.cols, b.rows, b.cols);
    node->shape = a;
    return RK_OK;
}

/* Columns of a that one value of b serves. */
static int64_t columns_per_value(const rk_run *run, const rk_node *node) {
    return rk_shape_size(node->shape) / rk_shape_size(rk_node_input_shape(run->graph, node, 1));
}

static rk_status multiply_forward(const rk_run *run, const rk_node *node) {
    int64_t span = columns_per_value(run, node), n = run->n * rk_shape_size(node->shape) / span;
    const rk_real *a = rk_node_input(run, node, 0), *b = rk_node_input(run, node, 1);
    rk_real *y = rk_node_output(run, node);
    for (int64_t i = 0; i < n; i++, a += span, y += span)
        for (int64_t k = 0; k < span; k++) y[k] = a[k] * b[i];
    return RK_OK;
}

static rk_status multiply_backward(const rk_run *run, const rk_node *node) {
    int64_t span = columns_per_value(run, node), n = run->n * rk_shape_size(node->shape) / span;
    const rk_real *a = rk_node_input(run, node, 0), *b = rk_node_input(run, node, 1),
                  *dy = rk_node_output_gradient(run, node);
    rk_real *da = rk_node_input_gradient(run, node, 0), *db = rk_node_input_gradient(run, node, 1);
    for (int64_t i = 0; i < n; i++, a += span, da += span, dy += span) {
        rk_real sum = 0;
        for (int64_t k = 0; k < span; k++) sum += dy[k] * a[k];
        for (int64_t k = 0; k < span; k++) da[k] += dy[k] * b[i];
        db[i] += sum;
    }
    return RK_OK;
}

const rk_op rk_op_multiply = {.name = "multiply",
                              .min_inputs = 2,
                              .max_inputs = 2,
                              .build = multiply_build,
                              .forward = multiply_forward,
                              .backward = multiply_backward};
