/* What DIN's activation unit sees of each position (Zhou et al. 2018), inputs q [1, cols] and k [rows, cols]:
 * row r of [rows, 4 cols] is [q, k_r, q - k_r, q * k_r]. */
#include "nn/graph/op.h"

static rk_status target_pairs_build(rk_graph *graph, rk_node *node) {
    rk_shape q = rk_node_input_shape(graph, node, 0), k = rk_node_input_shape(graph, node, 1);
    RK_FAIL_IF(rk_shape_size(q) != k.cols, RK_INVALID_ARGUMENT,
               "the target has %lld columns, but the rows have %d", (long long)rk_shape_size(q), k.cols);
    RK_FAIL_IF(k.cols > INT32_MAX / 4, RK_INVALID_ARGUMENT, "rows of %d columns are too wide", k.cols);
    node->shape = (rk_shape){k.rows, 4 * k.cols};
    return RK_OK;
}

static rk_status target_pairs_forward(const rk_run *run, const rk_node *node) {
    int32_t rows = node->shape.rows, cols = node->shape.cols / 4;
    const rk_samples q_of = rk_node_input_samples(run, node, 0), k_of = rk_node_input_samples(run, node, 1);
    rk_real *y = rk_node_output(run, node);
    for (int64_t s = 0; s < run->n; s++) {
        const rk_real *q = q_of.data + s * q_of.stride, *k = k_of.data + s * k_of.stride;
        for (int32_t r = 0; r < rows; r++, k += cols, y += 4 * cols)
            for (int32_t c = 0; c < cols; c++) {
                y[c] = q[c];
                y[cols + c] = k[c];
                y[2 * cols + c] = q[c] - k[c];
                y[3 * cols + c] = q[c] * k[c];
            }
    }
    return RK_OK;
}

static rk_status target_pairs_backward(const rk_run *run, const rk_node *node) {
    int32_t rows = node->shape.rows, cols = node->shape.cols / 4;
    const rk_real *q = rk_node_input(run, node, 0), *k = rk_node_input(run, node, 1),
                  *dy = rk_node_output_gradient(run, node);
    rk_real *dq = rk_node_input_gradient(run, node, 0), *dk = rk_node_input_gradient(run, node, 1);
    for (int64_t s = 0; s < run->n; s++, q += cols, dq += cols)
        for (int32_t r = 0; r < rows; r++, k += cols, dk += cols, dy += 4 * cols)
            for (int32_t c = 0; c < cols; c++) {
                dq[c] += dy[c] + dy[2 * cols + c] + dy[3 * cols + c] * k[c];
                dk[c] += dy[cols + c] - dy[2 * cols + c] + dy[3 * cols + c] * q[c];
            }
    return RK_OK;
}

const rk_op rk_op_target_pairs = {.name = "target_pairs",
                                  .min_inputs = 2,
                                  .max_inputs = 2,
                                  .build = target_pairs_build,
                                  .takes_context = true,
                                  .forward = target_pairs_forward,
                                  .backward = target_pairs_backward};
