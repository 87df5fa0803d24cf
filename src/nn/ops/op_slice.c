/* Columns options.first .. first + count - 1 of the flattened sample. */
#include <string.h>

#include "nn/graph/op.h"

static rk_status slice_build(rk_graph *graph, rk_node *node) {
    int64_t width = rk_shape_size(rk_node_input_shape(graph, node, 0));
    const rk_op_options *o = &node->options;
    RK_FAIL_IF(o->first < 0 || o->count < 1 || o->first + (int64_t)o->count > width, RK_INVALID_ARGUMENT,
               "columns %d to %lld do not exist: the input has %lld, counted from 0", o->first,
               (long long)o->first + o->count - 1, (long long)width);
    node->shape = (rk_shape){1, o->count};
    return RK_OK;
}

static rk_status slice_forward(const rk_run *run, const rk_node *node) {
    int64_t from = rk_shape_size(rk_node_input_shape(run->graph, node, 0)), to = node->options.count;
    const rk_real *x = rk_node_input(run, node, 0) + node->options.first;
    rk_real *y = rk_node_output(run, node);
    for (int64_t s = 0; s < run->n; s++) memcpy(y + s * to, x + s * from, (size_t)to * sizeof *y);
    return RK_OK;
}

static rk_status slice_backward(const rk_run *run, const rk_node *node) {
    int64_t from = rk_shape_size(rk_node_input_shape(run->graph, node, 0)), to = node->options.count;
    const rk_real *dy = rk_node_output_gradient(run, node);
    rk_real *dx = rk_node_input_gradient(run, node, 0) + node->options.first;
    for (int64_t s = 0; s < run->n; s++)
        for (int64_t c = 0; c < to; c++) dx[s * from + c] += dy[s * to + c];
    return RK_OK;
}

const rk_op rk_op_slice = {.name = "slice",
                           .min_inputs = 1,
                           .max_inputs = 1,
                           .options = RK_OPTION_first | RK_OPTION_count,
                           .build = slice_build,
                           .forward = slice_forward,
                           .backward = slice_backward};
