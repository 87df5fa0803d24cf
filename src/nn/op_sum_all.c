/* -> [1, 1]: the sum of all of a sample's values. */
#include "nn/op.h"

static rk_status build(rk_graph *graph, rk_node *node) {
    (void)graph;
    node->shape = (rk_shape){1, 1};
    return RK_OK;
}

static void forward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    int64_t width = rk_width(rk_in_shape(run->graph, node, 0));
    for (int64_t s = first; s < last; s++) {
        rk_real sum = 0;
        for (int64_t c = 0; c < width; c++) sum += rk_in(run, node, 0)[s * width + c];
        node->data[s] = sum;
    }
}

static void backward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    int64_t width = rk_width(rk_in_shape(run->graph, node, 0));
    rk_real *dx = rk_in_gradient(run, node, 0);
    for (int64_t s = first; s < last; s++)
        for (int64_t c = 0; c < width; c++) dx[s * width + c] += node->gradient[s];
}

const rk_op rk_op_sum_all = {.name = "sum_all", .min_inputs = 1, .max_inputs = 1, .build = build, .forward_block = forward_block, .backward_block = backward_block};
