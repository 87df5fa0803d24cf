/* The inputs' samples, flattened, side by side. */
#include <string.h>

#include "nn/graph/op.h"

static rk_status concat_build(rk_graph *graph, rk_node *node) {
    int64_t width = 0;
    for (int32_t k = 0; k < node->n_inputs; k++) width += rk_shape_size(rk_node_input_shape(graph, node, k));
    RK_FAIL_IF(width > INT32_MAX, RK_INVALID_ARGUMENT,
               "the result has %lld values a sample; at most 2^31 - 1 are supported", (long long)width);
    node->shape = (rk_shape){1, (int32_t)width};
    return RK_OK;
}

static rk_status concat_forward(const rk_run *run, const rk_node *node) {
    int64_t width = rk_shape_size(node->shape);
    rk_real *y = rk_node_output(run, node);
    for (int32_t k = 0; k < node->n_inputs; k++) {
        int64_t part = rk_shape_size(rk_node_input_shape(run->graph, node, k));
        const rk_samples x = rk_node_input_samples(run, node, k);
        for (int64_t s = 0; s < run->n; s++)
            memcpy(y + s * width, x.data + s * x.stride, (size_t)part * sizeof *y);
        y += part;
    }
    return RK_OK;
}

static rk_status concat_backward(const rk_run *run, const rk_node *node) {
    int64_t width = rk_shape_size(node->shape);
    const rk_real *dy = rk_node_output_gradient(run, node);
    for (int32_t k = 0; k < node->n_inputs; k++) {
        int64_t part = rk_shape_size(rk_node_input_shape(run->graph, node, k));
        rk_real *dx = rk_node_input_gradient(run, node, k);
        bool writes = rk_node_writes_gradient_first(node, k);
        for (int64_t s = 0; s < run->n; s++, dx += part) {
            if (writes)
                memcpy(dx, dy + s * width, (size_t)part * sizeof *dx);
            else
                for (int64_t c = 0; c < part; c++) dx[c] += dy[s * width + c];
        }
        dy += part;
    }
    return RK_OK;
}

const rk_op rk_op_concat = {.name = "concat",
                            .min_inputs = 1,
                            .writes_gradient = true,
                            .build = concat_build,
                            .takes_context = true,
                            .forward = concat_forward,
                            .backward = concat_backward};
