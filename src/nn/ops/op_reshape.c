/* The same memory as [rows, cols]; one of them may be 0, for what the other leaves. */
#include "nn/graph/op.h"

static rk_status reshape_build(rk_graph *graph, rk_node *node) {
    int32_t rows = node->options.rows, cols = node->options.cols;
    int64_t width = rk_shape_size(rk_node_input_shape(graph, node, 0));
    if (rows == 0 && cols > 0) rows = (int32_t)(width / cols);
    if (cols == 0 && rows > 0) cols = (int32_t)(width / rows);
    node->shape = (rk_shape){rows, cols};
    RK_FAIL_IF(rows < 1 || cols < 1 || rk_shape_size(node->shape) != width, RK_INVALID_ARGUMENT,
               "%lld values a sample cannot be reshaped to [%d, %d]", (long long)width, rows, cols);
    return RK_OK;
}

const rk_op rk_op_reshape = {.name = "reshape",
                             .min_inputs = 1,
                             .max_inputs = 1,
                             .options = RK_OPTION_rows | RK_OPTION_cols,
                             .is_view = true,
                             .build = reshape_build};
