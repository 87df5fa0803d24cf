/* A linear over target_pairs in prediction (packed_pair_weights.h). target_pairs then gives the products, and
 * copies of q and k behind them. */
#include <string.h>

#include "base/memory.h"
#include "nn/ops/packed_pair_weights.h"

/* Where target_pairs has left what a block reads: [n, rows, cols] twice, [n, cols]. */
typedef struct parts {
    rk_real *products, *rows, *target;
    int64_t n_rows, cols;
} parts;

static parts split_pairs_output(const rk_run *run, const rk_node *pairs) {
    int64_t cols = pairs->shape.cols / 4, n = run->n * pairs->shape.rows;
    rk_real *at = rk_node_output(run, pairs);
    return (parts){at, at + n * cols, at + 2 * n * cols, pairs->shape.rows, cols};
}

static rk_status forward_target_pairs(const rk_run *run, const rk_node *node) {
    const rk_samples q_of = rk_node_input_samples(run, node, 0), k_of = rk_node_input_samples(run, node, 1);
    parts p = split_pairs_output(run, node);
    int64_t width = p.n_rows * p.cols;
    for (int64_t s = 0; s < run->n; s++) {
        const rk_real *q = q_of.data + s * q_of.stride, *k = k_of.data + s * k_of.stride;
        rk_real *to = p.products + s * width;
        for (int64_t r = 0; r < p.n_rows; r++, k += p.cols, to += p.cols)
            for (int64_t c = 0; c < p.cols; c++) to[c] = q[c] * k[c];
        memcpy(p.target + s * p.cols, q, (size_t)p.cols * sizeof *q);
        if (k_of.stride) memcpy(p.rows + s * width, k_of.data + s * width, (size_t)width * sizeof *k);
    }
    return RK_OK;
}

static const rk_real *bias_of_linear(const rk_run *run, const rk_node *node) {
    return node->options.no_bias ? NULL : rk_node_parameter(run, node, 1);
}

static void multiply_rows_by_weight(const rk_run *run, const rk_node *node, int64_t n, const rk_real *k,
                                    rk_real *y) {
    const rk_packed_pair_weights *own = node->fused_own;
    rk_batch_invariant_matrix_multiply(&own->rows, (rk_lines){0, own->rows.in}, n, k,
                                       bias_of_linear(run, node), false, y);
}

static rk_status pair_linear_begin(const rk_run *run, const rk_node *node, int64_t columns, rk_real *out) {
    const rk_node *pairs = run->graph->nodes[node->inputs[0]];
    (void)columns;
    multiply_rows_by_weight(run, node, pairs->shape.rows, rk_run_context_value(run, pairs->inputs[1]), out);
    return RK_OK;
}

static rk_status pair_linear_forward(const rk_run *run, const rk_node *node) {
    const rk_packed_pair_weights *own = node->fused_own;
    const parts p = split_pairs_output(run, run->graph->nodes[node->inputs[0]]);
    int64_t units = node->shape.cols, width = p.n_rows * units, columns;
    const rk_real *begun = rk_node_context_products(run, node, &columns);
    rk_real *y = rk_node_output(run, node), *of_target = run->workspace;
    if (!begun) multiply_rows_by_weight(run, node, run->n * p.n_rows, p.rows, y);
    rk_batch_invariant_matrix_multiply(&own->target, (rk_lines){0, p.cols}, run->n, p.target, NULL, false,
                                       of_target);
    for (int64_t s = 0; s < run->n; s++, y += width, of_target += units)
        rk_batch_invariant_matrix_multiply_add(&own->products, p.n_rows, p.products + s * p.n_rows * p.cols,
                                               begun ? begun : y, of_target, node->options.relu, y);
    return RK_OK;
}

static void pair_linear_release(rk_node *node) {
    if (node->fused_own) rk_packed_pair_weights_release(node->fused_own);
    rk_free(node->fused_own);
}

static rk_status pair_linear_prepare(const rk_graph *graph, rk_node *node, bool training) {
    (void)training;
    return rk_packed_pair_weights_set(node->fused_own, graph, node);
}

const rk_op rk_op_pair_linear = {.name = "linear",
                                 .prepare = pair_linear_prepare,
                                 .forward = pair_linear_forward,
                                 .begin = pair_linear_begin,
                                 .release = pair_linear_release};
static const rk_op pairs_op = {
    .name = "target_pairs", .takes_context = true, .forward = forward_target_pairs};

rk_status rk_packed_pair_weights_init(rk_packed_pair_weights *panels, const rk_graph *graph,
                                      const rk_node *linear) {
    int64_t units = linear->shape.cols, cols = graph->nodes[linear->inputs[0]]->shape.cols / 4;
    RK_TRY(rk_batch_invariant_matrix_init(&panels->rows, cols, units));
    RK_TRY(rk_batch_invariant_matrix_init(&panels->target, cols, units));
    return rk_batch_invariant_matrix_init(&panels->products, cols, units);
}

rk_status rk_packed_pair_weights_set(rk_packed_pair_weights *panels, const rk_graph *graph,
                                     const rk_node *linear) {
    RK_AUTOFREE rk_real *sums = NULL;
    int64_t n = panels->rows.in * panels->rows.out;
    const rk_real *w = graph->parameters[linear->parameters[0]].value;
    const rk_real *of_q = w, *of_k = w + n, *of_difference = w + 2 * n, *of_product = w + 3 * n;
    RK_TRY(rk_alloc((size_t)n, sizeof *sums, &sums));
    for (int64_t i = 0; i < n; i++) sums[i] = of_k[i] - of_difference[i];
    rk_batch_invariant_matrix_set_weights(&panels->rows, sums);
    for (int64_t i = 0; i < n; i++) sums[i] = of_q[i] + of_difference[i];
    rk_batch_invariant_matrix_set_weights(&panels->target, sums);
    rk_batch_invariant_matrix_set_weights(&panels->products, of_product);
    return RK_OK;
}

void rk_packed_pair_weights_release(rk_packed_pair_weights *panels) {
    rk_batch_invariant_matrix_release(&panels->rows);
    rk_batch_invariant_matrix_release(&panels->target);
    rk_batch_invariant_matrix_release(&panels->products);
}

rk_status rk_target_pairs_fuse_linear(rk_graph *graph, rk_node *linear, rk_node *pairs) {
    rk_packed_pair_weights *own;
    RK_TRY(rk_alloc(1, sizeof *own, &own));
    linear->fused_own = own;
    linear->fused = &rk_op_pair_linear;
    pairs->fused = &pairs_op;
    RK_TRY(rk_packed_pair_weights_init(own, graph, linear));
    size_t more = (size_t)(graph->block * linear->shape.cols) * sizeof(rk_real);
    if (more > linear->workspace_bytes) linear->workspace_bytes = more;
    return RK_OK;
}
