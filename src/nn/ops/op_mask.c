/* Which of a sample's rows are there, from lengths [1, any] to [rows, 1]: 1 for the first options.count rows
 * and for lengths[options.first] after them, 0 for the rest, which are a sequence's padding. The lengths get
 * no gradient. */
#include "nn/graph/op.h"

static rk_status mask_build(rk_graph *graph, rk_node *node) {
    const rk_op_options *o = &node->options;
    int64_t width = rk_shape_size(rk_node_input_shape(graph, node, 0));
    RK_FAIL_IF(o->rows < 1, RK_INVALID_ARGUMENT, "'rows' is missing");
    RK_FAIL_IF(o->first < 0 || o->first >= width, RK_INVALID_ARGUMENT,
               "'first' is %d, but there are %lld lengths, counted from 0", o->first, (long long)width);
    RK_FAIL_IF(o->count < 0 || o->count > o->rows, RK_INVALID_ARGUMENT,
               "'count' is %d, but it must be 0 to %d (rows)", o->count, o->rows);
    node->shape = (rk_shape){o->rows, 1};
    return RK_OK;
}

static rk_status mask_forward(const rk_run *run, const rk_node *node) {
    int32_t rows = node->shape.rows, count = node->options.count;
    int64_t width = rk_shape_size(rk_node_input_shape(run->graph, node, 0));
    const rk_real *length = rk_node_input(run, node, 0) + node->options.first;
    rk_real *y = rk_node_output(run, node);
    for (int64_t s = 0; s < run->n; s++, length += width, y += rows)
        for (int32_t r = 0; r < rows; r++) y[r] = r < count || (rk_real)(r - count + 1) <= *length;
    return RK_OK;
}

static rk_status mask_backward(const rk_run *run, const rk_node *node) {
    (void)run;
    (void)node;
    return RK_OK;
}

const rk_op rk_op_mask = {.name = "mask",
                          .min_inputs = 1,
                          .max_inputs = 1,
                          .options = RK_OPTION_first | RK_OPTION_count | RK_OPTION_rows,
                          .build = mask_build,
                          .forward = mask_forward,
                          .backward = mask_backward};
