/* [rows, cols] -> [1, cols]: the sum of the rows. */
#include <string.h>

#include "nn/op.h"

static rk_status build(rk_graph *graph, rk_node *node) {
    node->shape = (rk_shape){1, rk_in_shape(graph, node, 0).cols};
    return RK_OK;
}

static void forward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    rk_shape from = rk_in_shape(run->graph, node, 0);
    memset(node->data + first * from.cols, 0, (size_t)((last - first) * from.cols) * sizeof *node->data);
    for (int64_t s = first; s < last; s++)
        for (int32_t r = 0; r < from.rows; r++)
            for (int32_t c = 0; c < from.cols; c++) node->data[s * from.cols + c] += rk_in(run, node, 0)[(s * from.rows + r) * from.cols + c];
}

static void backward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    rk_shape from = rk_in_shape(run->graph, node, 0);
    rk_real *dx = rk_in_gradient(run, node, 0);
    for (int64_t s = first; s < last; s++)
        for (int32_t r = 0; r < from.rows; r++)
            for (int32_t c = 0; c < from.cols; c++) dx[(s * from.rows + r) * from.cols + c] += node->gradient[s * from.cols + c];
}

const rk_op rk_op_sum_rows = {.name = "sum_rows", .min_inputs = 1, .max_inputs = 1, .build = build, .forward_block = forward_block, .backward_block = backward_block};
