/* y = b for every sample: a parameter that no input takes part in, zeros at first. units = cols. A bias: no
 * weight decay, no l2. */
#include <string.h>

#include "nn/graph/op.h"

static rk_status constant_build(rk_graph *graph, rk_node *node) {
    RK_FAIL_IF(node->n_inputs > 0, RK_INVALID_ARGUMENT, "takes no inputs");
    RK_FAIL_IF(node->options.units < 1, RK_INVALID_ARGUMENT, "'units' must be 1 or more, not %d",
               node->options.units);
    node->shape = (rk_shape){1, node->options.units};
    rk_initializer zeros = {.kind = RK_INIT_ZEROS};
    return rk_node_add_parameter(graph, node, "value", 1, node->options.units, &zeros, true);
}

static rk_status constant_forward(const rk_run *run, const rk_node *node) {
    int64_t cols = node->shape.cols;
    const rk_real *b = rk_node_parameter(run, node, 0);
    rk_real *y = rk_node_output(run, node);
    for (int64_t s = 0; s < run->n; s++) memcpy(y + s * cols, b, (size_t)cols * sizeof *y);
    return RK_OK;
}

static rk_status constant_backward(const rk_run *run, const rk_node *node) {
    int64_t cols = node->shape.cols;
    const rk_real *dy = rk_node_output_gradient(run, node);
    rk_real *db = rk_node_parameter_gradient(run, node, 0);
    for (int64_t s = 0; s < run->n; s++, dy += cols)
        for (int64_t c = 0; c < cols; c++) db[c] += dy[c];
    return RK_OK;
}

const rk_op rk_op_constant = {.name = "constant",
                              .options = RK_OPTION_units,
                              .build = constant_build,
                              .forward = constant_forward,
                              .backward = constant_backward};
