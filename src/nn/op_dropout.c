/* In training a value is zeroed with probability options.rate, else divided by 1 - rate; the mask is a function of (seed, node, step, place).
 * In prediction y = x. */
#include <string.h>

#include "base/rng.h"
#include "nn/graph_parts.h"

static rk_status build(rk_graph *graph, rk_node *node) {
    RK_FAIL_IF(!(node->options.rate >= 0 && node->options.rate < 1), RK_INVALID_ARGUMENT, "a rate must be at least 0 and below 1, not %g", node->options.rate);
    node->shape = rk_in_shape(graph, node, 0);
    return RK_OK;
}

/* to[i] = (or += if add) mask[i] * from[i] */
static void apply_mask(const rk_run *run, const rk_node *node, int64_t first, int64_t last, const rk_real *from, rk_real *to, bool add) {
    int64_t width = rk_width(node->shape);
    uint32_t limit = (uint32_t)(node->options.rate * 4294967296.0);
    rk_real keep = (rk_real)(1 / (1 - node->options.rate));
    uint64_t stream = (uint64_t)node->number << 40 | (uint64_t)run->step;
    uint32_t random[4];
    for (int64_t s = first; s < last; s++)
        for (int64_t c = 0; c < width; c++) {
            int64_t i = s * width + c;
            if (c == 0 || i % 4 == 0) rk_rng_block(run->graph->seed ^ 0xd409u, stream, (uint64_t)(i / 4), random);
            rk_real y = random[i % 4] >= limit ? from[i] * keep : 0;
            to[i] = add ? to[i] + y : y;
        }
}

static void forward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    int64_t width = rk_width(node->shape);
    const rk_real *x = rk_in(run, node, 0);
    if (run->training)
        apply_mask(run, node, first, last, x, node->data, false);
    else
        memcpy(node->data + first * width, x + first * width, (size_t)((last - first) * width) * sizeof *x);
}

static void backward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    apply_mask(run, node, first, last, node->gradient, rk_in_gradient(run, node, 0), true);
}

const rk_op rk_op_dropout = {.name = "dropout", .min_inputs = 1, .max_inputs = 1, .build = build, .forward_block = forward_block, .backward_block = backward_block};
