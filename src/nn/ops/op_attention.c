/* Multi-head attention among the rows of a sample, unscaled (Song et al. 2019, AutoInt, equations 5 to 7);
 * inputs q, k, v [rows, heads * dim], in each head's columns:
 *     a_rc = softmax over c of q_r . k_c        y_r = sum_c a_rc v_c
 * A fourth input is a mask of the rows, which gets no gradient: where it is not above 0 a row is padding,
 * which weighs nothing (a_rc = 0) and has zeros for y_r. options: count = heads. */
#include <math.h>
#include <string.h>

#include "kernels/inline/lane_sum.h"
#include "nn/graph/op.h"
#include "nn/ops/softmax.h"

static rk_status attention_build(rk_graph *graph, rk_node *node) {
    int32_t heads = node->options.count;
    RK_TRY(rk_node_check_same_shapes(graph, node, 3));
    node->shape = rk_node_input_shape(graph, node, 0);
    if (node->n_inputs > 3) {
        int64_t n = rk_shape_size(rk_node_input_shape(graph, node, 3));
        RK_FAIL_IF(n != node->shape.rows, RK_INVALID_ARGUMENT,
                   "the mask has %lld values, but there are %d rows", (long long)n, node->shape.rows);
    }
    RK_FAIL_IF(heads < 1 || node->shape.cols % heads != 0, RK_INVALID_ARGUMENT,
               "%d columns are not divisible by %d heads", node->shape.cols, heads);
    node->saved_width = (int64_t)heads * node->shape.rows * node->shape.rows; /* a */
    node->workspace_bytes = 2 * (size_t)node->shape.rows * sizeof(rk_real);
    return RK_OK;
}

/* to += factor * from */
static void add_scaled(rk_real *to, const rk_real *from, rk_real factor, int32_t n) {
    for (int32_t i = 0; i < n; i++) to[i] += factor * from[i];
}

/* The mask of sample s; NULL: all rows are there. */
static const rk_real *mask_of_sample(const rk_run *run, const rk_node *node, int64_t s) {
    return node->n_inputs > 3 ? rk_node_input(run, node, 3) + s * node->shape.rows : NULL;
}

static bool is_padding_row(const rk_real *mask, int32_t row) {
    return mask && !(mask[row] > 0);
}

/* a: the scores of a row that is there. */
static void mask_padding_scores(const rk_real *mask, rk_real *a, int32_t rows) {
    for (int32_t c = 0; c < rows; c++)
        if (is_padding_row(mask, c)) a[c] = -INFINITY;
}

static rk_status attention_forward(const rk_run *run, const rk_node *node) {
    int32_t rows = node->shape.rows, cols = node->shape.cols, heads = node->options.count, dim = cols / heads;
    rk_real *a = rk_node_saved(run, node);
    memset(rk_node_output(run, node), 0, (size_t)(run->n * rk_shape_size(node->shape)) * sizeof(rk_real));
    for (int64_t s = 0; s < run->n; s++) {
        const rk_real *mask = mask_of_sample(run, node, s);
        for (int32_t h = 0; h < heads; h++) {
            int64_t first = s * rk_shape_size(node->shape) + (int64_t)h * dim;
            const rk_real *q = rk_node_input(run, node, 0) + first, *k = rk_node_input(run, node, 1) + first,
                          *v = rk_node_input(run, node, 2) + first;
            rk_real *y = rk_node_output(run, node) + first;
            for (int32_t r = 0; r < rows; r++, a += rows, q += cols, y += cols) {
                if (is_padding_row(mask, r)) {
                    memset(a, 0, (size_t)rows * sizeof *a);
                    continue;
                }
                for (int32_t c = 0; c < rows; c++)
                    a[c] = rk_dot_product_by_lanes(q, k + (int64_t)c * cols, dim);
                if (mask) mask_padding_scores(mask, a, rows);
                rk_softmax_row(a, a, rows);
                for (int32_t c = 0; c < rows; c++) add_scaled(y, v + (int64_t)c * cols, a[c], dim);
            }
        }
    }
    return RK_OK;
}

static rk_status attention_backward(const rk_run *run, const rk_node *node) {
    int32_t rows = node->shape.rows, cols = node->shape.cols, heads = node->options.count, dim = cols / heads;
    const rk_real *a = rk_node_saved(run, node);
    rk_real *da = run->workspace, *ddots = da + rows;
    for (int64_t s = 0; s < run->n; s++) {
        const rk_real *mask = mask_of_sample(run, node, s);
        for (int32_t h = 0; h < heads; h++) {
            int64_t first = s * rk_shape_size(node->shape) + (int64_t)h * dim;
            const rk_real *q = rk_node_input(run, node, 0) + first, *k = rk_node_input(run, node, 1) + first,
                          *v = rk_node_input(run, node, 2) + first;
            const rk_real *dy = rk_node_output_gradient(run, node) + first;
            rk_real *dq = rk_node_input_gradient(run, node, 0) + first,
                    *dk = rk_node_input_gradient(run, node, 1) + first,
                    *dv = rk_node_input_gradient(run, node, 2) + first;
            for (int32_t r = 0; r < rows; r++, a += rows, q += cols, dq += cols, dy += cols) {
                if (is_padding_row(mask, r)) continue;
                for (int32_t c = 0; c < rows; c++) {
                    da[c] = rk_dot_product_by_lanes(dy, v + (int64_t)c * cols, dim);
                    ddots[c] = 0;
                    add_scaled(dv + (int64_t)c * cols, dy, a[c], dim);
                }
                rk_softmax_row_backward(a, da, ddots, rows);
                for (int32_t c = 0; c < rows; c++) {
                    add_scaled(dq, k + (int64_t)c * cols, ddots[c], dim);
                    add_scaled(dk + (int64_t)c * cols, q, ddots[c], dim);
                }
            }
        }
    }
    return RK_OK;
}

const rk_op rk_op_attention = {.name = "attention",
                               .min_inputs = 3,
                               .max_inputs = 4,
                               .options = RK_OPTION_count,
                               .build = attention_build,
                               .forward = attention_forward,
                               .backward = attention_backward};
