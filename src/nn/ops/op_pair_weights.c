/* DIN's activation unit in prediction: target_pairs and the linears by row over it, the first of them by half
 * of its products (packed_pair_weights.h), up to one weight a row. A few rows at a time go through all of
 * them, so that what is between stays in the first cache; rows that attention_pool leaves out do not go at
 * all. target_pairs gives the weights then, [n, rows], and the linears pass them on. Of a history that the
 * context has, rows that are there several times go once. */
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "gemm/gemm.h"
#include "nn/ops/attention_pool.h"
#include "nn/ops/packed_pair_weights.h"

enum { ROWS_AT_ONCE = 48 };

typedef struct pair_weights {
    rk_packed_pair_weights first;
    rk_node **layers; /* [n_layers]: the linears */
    int32_t n_layers;
    const rk_node *pool; /* the attention_pool that alone reads the weights; NULL: another node does */
    int64_t widest;      /* units of a layer before the last */
} pair_weights;

/* A context's rows that differ from one another, in what target_pairs has begun: as much as its output holds.
 */
typedef struct history {
    rk_real *rows;   /* [n, cols] */
    int32_t *places; /* [rows]: in `rows`, of each row that counts */
    int32_t *n;
} history;

static history history_cached_in_context(const rk_node *pairs, rk_real *begun) {
    int32_t *places = (int32_t *)(begun + (int64_t)pairs->shape.rows * (pairs->shape.cols / 4));
    return (history){begun, places, places + pairs->shape.rows};
}

/* Places in a table of hashes, with room to spare. */
static int64_t hash_table_size(int64_t rows) {
    int64_t n = 4;
    while (n < 2 * rows) n *= 2;
    return n;
}

static rk_status cache_history_of_context(const rk_run *run, const rk_node *pairs, int64_t columns,
                                          rk_real *out) {
    const pair_weights *own = pairs->fused_own;
    const rk_real *k = rk_run_context_value(run, pairs->inputs[1]);
    const history h = history_cached_in_context(pairs, out);
    int32_t *table = run->workspace, rows = pairs->shape.rows;
    int64_t cols = pairs->shape.cols / 4, n_places = hash_table_size(rows);
    size_t row_bytes = (size_t)cols * sizeof *k;
    (void)columns;
    if (own->pool && rk_run_is_context_value(run, own->pool->inputs[2]))
        rows = rk_attention_pool_length(run, own->pool, 0);
    for (int64_t i = 0; i < n_places; i++) table[i] = -1;
    *h.n = 0;
    for (int32_t r = 0; r < rows; r++, k += cols) {
        int64_t at = (int64_t)(rk_hash_bytes(k, row_bytes, 0) & (uint64_t)(n_places - 1));
        while (table[at] >= 0 && memcmp(h.rows + table[at] * cols, k, row_bytes) != 0)
            at = (at + 1) & (n_places - 1);
        if (table[at] < 0) {
            table[at] = (*h.n)++;
            memcpy(h.rows + table[at] * cols, k, row_bytes);
        }
        h.places[r] = table[at];
    }
    return RK_OK;
}

static const rk_real *bias_of_linear(const rk_run *run, const rk_node *linear) {
    return linear->options.no_bias ? NULL : rk_node_parameter(run, linear, 1);
}

static void multiply_rows_by_weight(const rk_run *run, const pair_weights *own, int64_t n, const rk_real *k,
                                    rk_real *y) {
    rk_batch_invariant_matrix_multiply(&own->first.rows, (rk_lines){0, own->first.rows.in}, n, k,
                                       bias_of_linear(run, own->layers[0]), false, y);
}

/* Of the first linear: the products of the context's rows. */
static rk_status cache_products_of_context(const rk_run *run, const rk_node *node, int64_t columns,
                                           rk_real *out) {
    const rk_node *pairs = run->graph->nodes[node->inputs[0]];
    const history h =
        history_cached_in_context(pairs, (rk_real *)(size_t)rk_run_context_value(run, node->inputs[0]));
    (void)columns;
    multiply_rows_by_weight(run, pairs->fused_own, *h.n, h.rows, out);
    return RK_OK;
}

/* A thread's memory. */
typedef struct workspace {
    rk_real *of_target;  /* [block, units]: q (W_q + W_d) */
    rk_real *products;   /* [ROWS_AT_ONCE, cols] */
    rk_real *values[2];  /* [ROWS_AT_ONCE, widest] */
    rk_real *of_history; /* [rows]: weights of a context's rows */
} workspace;

/* All of it in a line, in reals; *n: how many those are. */
static workspace assign_workspace(const rk_graph *graph, const rk_node *pairs, rk_real *at, int64_t *n) {
    const pair_weights *own = pairs->fused_own;
    int64_t cols = pairs->shape.cols / 4, offset = 0;
    workspace w;
#define TAKE(place, reals) (place) = at ? at + offset : NULL, offset += ((reals) + 15) / 16 * 16
    TAKE(w.of_target, graph->block * own->first.target.out);
    TAKE(w.products, ROWS_AT_ONCE * cols);
    TAKE(w.values[0], ROWS_AT_ONCE * own->widest);
    TAKE(w.values[1], ROWS_AT_ONCE * own->widest);
    TAKE(w.of_history, pairs->shape.rows);
#undef TAKE
    *n = offset;
    return w;
}

/* A sample's target beside some rows. */
typedef struct target {
    const rk_real *q, *of_q;
    int64_t cols;
} target;

/* Weights [n] of n <= ROWS_AT_ONCE rows; begun [n, units]: their own products, or NULL. */
static rk_status compute_weights_of_rows(const rk_run *run, const pair_weights *own, const workspace *w,
                                         const target *t, int64_t n, const rk_real *k, const rk_real *begun,
                                         rk_real *weights) {
    const rk_node *first = own->layers[0];
    rk_real *y = own->n_layers > 1 ? w->values[0] : weights;
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < t->cols; c++) w->products[r * t->cols + c] = t->q[c] * k[r * t->cols + c];
    if (!begun) multiply_rows_by_weight(run, own, n, k, y);
    rk_batch_invariant_matrix_multiply_add(&own->first.products, n, w->products, begun ? begun : y, t->of_q,
                                           first->options.relu, y);
    for (int32_t l = 1; l < own->n_layers; l++) {
        const rk_node *layer = own->layers[l];
        rk_real *next = l + 1 < own->n_layers ? w->values[l % 2] : weights;
        RK_TRY(rk_packed_matrix_forward(layer->own, n, y, bias_of_linear(run, layer), layer->options.relu,
                                        next, NULL));
        y = next;
    }
    return RK_OK;
}

static rk_status compute_attention_weights(const rk_run *run, const pair_weights *own, const workspace *w,
                                           const target *t, int64_t n, const rk_real *k, const rk_real *begun,
                                           rk_real *weights) {
    for (int64_t r = 0; r < n; r += ROWS_AT_ONCE) {
        int64_t some = n - r < ROWS_AT_ONCE ? n - r : ROWS_AT_ONCE;
        RK_TRY(compute_weights_of_rows(run, own, w, t, some, k + r * t->cols,
                                       begun ? begun + r * own->first.rows.out : NULL, weights + r));
    }
    return RK_OK;
}

static rk_status pair_weights_forward(const rk_run *run, const rk_node *pairs) {
    const pair_weights *own = pairs->fused_own;
    int64_t rows = pairs->shape.rows, cols = pairs->shape.cols / 4, units = own->first.target.out, unused;
    const rk_samples q = rk_node_input_samples(run, pairs, 0), k = rk_node_input_samples(run, pairs, 1);
    const workspace w = assign_workspace(run->graph, pairs, run->workspace, &unused);
    const rk_real *begun = rk_node_context_products(run, pairs, &unused),
                  *begun_rows = rk_node_context_products(run, own->layers[0], &unused);
    rk_real *weights = rk_node_output(run, pairs);
    rk_batch_invariant_matrix_multiply(&own->first.target, (rk_lines){0, cols}, q.stride ? run->n : 1, q.data,
                                       NULL, false, w.of_target);
    for (int64_t s = 0; s < run->n; s++, weights += rows) {
        const target t = {q.data + s * q.stride, w.of_target + (q.stride ? s * units : 0), cols};
        int64_t length = own->pool ? rk_attention_pool_length(run, own->pool, s) : rows;
        if (begun) {
            const history h = history_cached_in_context(pairs, (rk_real *)(size_t)begun);
            RK_TRY(compute_attention_weights(run, own, &w, &t, *h.n, h.rows, begun_rows, w.of_history));
            for (int64_t r = 0; r < length; r++) weights[r] = w.of_history[h.places[r]];
        } else {
            RK_TRY(compute_attention_weights(run, own, &w, &t, length, k.data + s * k.stride, NULL, weights));
        }
        memset(weights + length, 0, (size_t)(rows - length) * sizeof *weights);
    }
    return RK_OK;
}

static rk_status copy_fused_output(const rk_run *run, const rk_node *node) {
    memcpy(rk_node_output(run, node), rk_node_input(run, node, 0),
           (size_t)(run->n * node->shape.rows) * sizeof(rk_real));
    return RK_OK;
}

static void pair_weights_release(rk_node *pairs) {
    pair_weights *own = pairs->fused_own;
    if (!own) return;
    rk_packed_pair_weights_release(&own->first);
    RK_FREE_ALL(own->layers, own);
}

static rk_status pair_weights_prepare(const rk_graph *graph, rk_node *pairs, bool training) {
    pair_weights *own = pairs->fused_own;
    for (int32_t l = 1; l < own->n_layers; l++)
        RK_TRY(own->layers[l]->op->prepare(graph, own->layers[l], training));
    return rk_packed_pair_weights_set(&own->first, graph, own->layers[0]);
}

const rk_op rk_op_pair_weights = {.name = "target_pairs",
                                  .prepare = pair_weights_prepare,
                                  .takes_context = true,
                                  .forward = pair_weights_forward,
                                  .begin = cache_history_of_context,
                                  .release = pair_weights_release};
const rk_op rk_op_pair_rows = {
    .name = "linear", .forward = copy_fused_output, .begin = cache_products_of_context};
static const rk_op passing = {.name = "linear", .forward = copy_fused_output};

static rk_status absorb_fused_layers(rk_graph *graph, pair_weights *own, rk_node *const *layers) {
    for (int32_t l = 0; l < own->n_layers; l++) {
        rk_node *layer = layers[l];
        own->layers[l] = layer;
        layer->fused = l ? &passing : &rk_op_pair_rows;
        if (l + 1 < own->n_layers && layer->shape.cols > own->widest) own->widest = layer->shape.cols;
    }
    return rk_packed_pair_weights_init(&own->first, graph, layers[0]);
}

rk_status rk_target_pairs_fuse_mlp(rk_graph *graph, rk_node *pairs, rk_node *const *layers, int32_t n_layers,
                                   const rk_node *pool) {
    pair_weights *own;
    int64_t n_reals;
    RK_TRY(rk_alloc(1, sizeof *own, &own));
    pairs->fused_own = own;
    pairs->fused = &rk_op_pair_weights;
    own->pool = pool;
    own->n_layers = n_layers;
    RK_TRY(rk_alloc((size_t)n_layers, sizeof *own->layers, &own->layers));
    RK_TRY(absorb_fused_layers(graph, own, layers));
    assign_workspace(graph, pairs, NULL, &n_reals);
    size_t bytes = (size_t)n_reals * sizeof(rk_real),
           of_table = (size_t)hash_table_size(pairs->shape.rows) * sizeof(int32_t);
    if (of_table > bytes) bytes = of_table;
    if (bytes > pairs->workspace_bytes) pairs->workspace_bytes = bytes;
    return RK_OK;
}
