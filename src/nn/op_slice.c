/* Columns options.first .. first + count - 1 of the flattened sample. */
#include <string.h>

#include "nn/op.h"

static rk_status build(rk_graph *graph, rk_node *node) {
    int64_t width = rk_width(rk_in_shape(graph, node, 0));
    const rk_op_options *o = &node->options;
    RK_FAIL_IF(o->first < 0 || o->count < 1 || o->first + (int64_t)o->count > width, RK_INVALID_ARGUMENT, "columns %d to %d of %lld", o->first, o->first + o->count - 1,
               (long long)width);
    node->shape = (rk_shape){1, o->count};
    return RK_OK;
}

static void forward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    int64_t from = rk_width(rk_in_shape(run->graph, node, 0)), to = node->options.count;
    for (int64_t s = first; s < last; s++)
        memcpy(node->data + s * to, rk_in(run, node, 0) + s * from + node->options.first, (size_t)to * sizeof *node->data);
}

static void backward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    int64_t from = rk_width(rk_in_shape(run->graph, node, 0)), to = node->options.count;
    rk_real *dx = rk_in_gradient(run, node, 0);
    for (int64_t s = first; s < last; s++)
        for (int64_t c = 0; c < to; c++) dx[s * from + node->options.first + c] += node->gradient[s * to + c];
}

const rk_op rk_op_slice = {.name = "slice", .min_inputs = 1, .max_inputs = 1, .build = build, .forward_block = forward_block, .backward_block = backward_block};
