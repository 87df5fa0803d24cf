/* A sequence by its weights (Zhou et al. 2018, DIN, equation 3), inputs w [rows, 1], k [rows, cols] and
 * lengths [1, any], to [1, cols]:
 *     y = sum over the first lengths[options.first] rows of w_r k_r
 * with options.softmax, w is the softmax of those rows' first. Rows beyond the length are padding: they take
 * and give nothing. A length of 0 gives zeros. */
#include <string.h>

#include "kernels/inline/lane_sum.h"
#include "nn/ops/attention_pool.h"
#include "nn/ops/softmax.h"

static rk_status attention_pool_build(rk_graph *graph, rk_node *node) {
    rk_shape w = rk_node_input_shape(graph, node, 0), k = rk_node_input_shape(graph, node, 1),
             lengths = rk_node_input_shape(graph, node, 2);
    RK_FAIL_IF(rk_shape_size(w) != k.rows, RK_INVALID_ARGUMENT,
               "the weights have %lld values, but there are %d rows", (long long)rk_shape_size(w), k.rows);
    RK_FAIL_IF(node->options.first < 0 || node->options.first >= rk_shape_size(lengths), RK_INVALID_ARGUMENT,
               "'first' is %d, but there are %lld lengths, counted from 0", node->options.first,
               (long long)rk_shape_size(lengths));
    node->shape = (rk_shape){1, k.cols};
    node->saved_width = k.rows; /* the weights as they are used */
    node->workspace_bytes = (size_t)k.rows * sizeof(rk_real);
    return RK_OK;
}

int32_t rk_attention_pool_length(const rk_run *run, const rk_node *node, int64_t sample) {
    const rk_samples lengths = rk_node_input_samples(run, node, 2);
    int32_t rows = (int32_t)node->saved_width;
    rk_real length = lengths.data[sample * lengths.stride + node->options.first];
    return length < 1 ? 0 : length < rows ? (int32_t)length : rows;
}

static rk_status attention_pool_forward(const rk_run *run, const rk_node *node) {
    int32_t cols = node->shape.cols;
    int64_t rows = node->saved_width;
    const rk_samples w_of = rk_node_input_samples(run, node, 0), k_of = rk_node_input_samples(run, node, 1);
    rk_real *y = rk_node_output(run, node), *used = rk_node_saved(run, node);
    memset(y, 0, (size_t)(run->n * cols) * sizeof *y);
    for (int64_t s = 0; s < run->n; s++, used += rows, y += cols) {
        const rk_real *w = w_of.data + s * w_of.stride, *k = k_of.data + s * k_of.stride;
        int32_t length = rk_attention_pool_length(run, node, s);
        memcpy(used, w, (size_t)rows * sizeof *used);
        if (node->options.softmax && length > 0) rk_softmax_row(used, used, length);
        for (int32_t r = 0; r < length; r++)
            for (int32_t c = 0; c < cols; c++) y[c] += used[r] * k[(int64_t)r * cols + c];
    }
    return RK_OK;
}

static rk_status attention_pool_backward(const rk_run *run, const rk_node *node) {
    int32_t cols = node->shape.cols;
    int64_t rows = node->saved_width;
    const rk_real *k = rk_node_input(run, node, 1), *used = rk_node_saved(run, node),
                  *dy = rk_node_output_gradient(run, node);
    rk_real *dw = rk_node_input_gradient(run, node, 0), *dk = rk_node_input_gradient(run, node, 1),
            *dused = run->workspace;
    for (int64_t s = 0; s < run->n;
         s++, k += rows * cols, dk += rows * cols, used += rows, dw += rows, dy += cols) {
        int32_t length = rk_attention_pool_length(run, node, s);
        for (int32_t r = 0; r < length; r++) {
            dused[r] = rk_dot_product_by_lanes(dy, k + (int64_t)r * cols, cols);
            for (int32_t c = 0; c < cols; c++) dk[(int64_t)r * cols + c] += used[r] * dy[c];
        }
        if (node->options.softmax) rk_softmax_row_backward(used, dused, dw, length);
        for (int32_t r = 0; r < length && !node->options.softmax; r++) dw[r] += dused[r];
    }
    return RK_OK;
}

const rk_op rk_op_attention_pool = {.name = "attention_pool",
                                    .min_inputs = 3,
                                    .max_inputs = 3,
                                    .options = RK_OPTION_first | RK_OPTION_softmax,
                                    .build = attention_pool_build,
                                    .takes_context = true,
                                    .forward = attention_pool_forward,
                                    .backward = attention_pool_backward};
