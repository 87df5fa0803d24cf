/* The same memory as [first, count]: options.first rows, options.count cols. */
#include "nn/op.h"

static rk_status build(rk_graph *graph, rk_node *node) {
    node->shape = (rk_shape){node->options.first, node->options.count};
    RK_FAIL_IF(node->shape.rows < 1 || node->shape.cols < 1 || rk_width(node->shape) != rk_width(rk_in_shape(graph, node, 0)), RK_INVALID_ARGUMENT,
               "%lld values a sample do not make [%d, %d]", (long long)rk_width(rk_in_shape(graph, node, 0)), node->shape.rows, node->shape.cols);
    return RK_OK;
}

const rk_op rk_op_reshape = {.name = "reshape", .min_inputs = 1, .max_inputs = 1, .is_view = true, .build = build};
