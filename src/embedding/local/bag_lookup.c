/* From checked ids to activations: gather and pool. */
#include <math.h>

#include "base/thread/parallel.h"
#include "embedding/local/collection_internal.h"

enum {
    LOOKUP_VALUES = 131072, /* values that a task reads and writes, about */
    LINE_BYTES = 64
};

bool rk_feature_bags_lookup(const rk_feature_bags *use, int64_t length, const rk_rows *rows, int64_t n_rows,
                            int64_t first, int64_t last, rk_activation to) {
    bool strays = false;
    rk_bag_forward_args args = {.rows = *rows,
                                .n_rows = n_rows,
                                .strays = n_rows ? &strays : NULL,
                                .single = use->single,
                                .offsets = use->offsets,
                                .ids = use->ids,
                                .coefficients = use->coefficients,
                                .scales = use->scales,
                                .out = to.data,
                                .stride = to.stride,
                                .first = first,
                                .last = last};
    if (!length) {
        rk_bag_forward(&args);
        return !strays;
    }
    args.stride = args.rows.dim; /* a sample's positions stand dim apart, samples to.stride */
    for (int64_t s = first; s < last; s++) {
        args.first = s * length;
        args.last = args.first + length;
        args.out = to.data + (s - first) * to.stride;
        rk_bag_forward(&args);
        if (to.lengths) to.lengths[s - first] = use->lengths[s];
    }
    return !strays;
}

static bool look_up_feature(const rk_embeddings *e, const rk_feature_bags *use, int32_t f, bool checks,
                            int64_t first, int64_t last, rk_activation to) {
    const rk_table *table = &e->tables[e->feature_tables[f]];
    return rk_feature_bags_lookup(use, e->features[f].max_sequence_length, &table->rows,
                                  checks ? table->config.n_rows : 0, first, last, to);
}

void rk_batch_context_lookup(const rk_embeddings *e, const rk_batch_context *batch_context, int32_t f,
                             int64_t first, int64_t last, const rk_activation *to) {
    (void)look_up_feature(e, &batch_context->uses[f], f, false, first, last, *to);
}

void rk_embeddings_lookup_samples(const rk_embeddings *e, bool training, int32_t f, int64_t first,
                                  int64_t last, const rk_activation *to) {
    rk_batch_context_lookup(e, training ? &e->batch_contexts[e->now] : &e->eval_batch, f, first, last, to);
}

typedef struct lookup {
    const rk_embeddings *embeddings;
    rk_batch_context *batch_context;
    const rk_activation *activations;
    bool checks;
} lookup;

static void look_up_block(void *context, size_t task, int thread) {
    (void)thread;
    const lookup *l = context;
    const rk_embeddings *e = l->embeddings;
    const size_t *begins = l->batch_context->task_begins;
    size_t f = rk_partition_find_item(begins, (size_t)e->n_features, task);
    size_t n_parts = begins[f + 1] - begins[f], part = task - begins[f];
    rk_feature_bags *use = &l->batch_context->uses[f];
    int64_t n = use->n, first = rk_partition_begin(n, part, n_parts);
    rk_activation to = l->activations[f];
    to.data += first * to.stride;
    if (to.lengths) to.lengths += first;
    bool all =
        look_up_feature(e, use, (int32_t)f, l->checks, first, rk_partition_begin(n, part + 1, n_parts), to);
    if (!all) atomic_store_explicit(&use->strays, true, memory_order_relaxed);
}

void rk_batch_context_lookup_all(const rk_embeddings *e, rk_batch_context *batch_context,
                                 const rk_activation *activations, bool checks) {
    lookup l = {
        .embeddings = e, .batch_context = batch_context, .activations = activations, .checks = checks};
    const rk_feature_bags *uses = batch_context->uses;
    size_t *begins = batch_context->task_begins;
    for (int32_t f = 0; f < e->n_features; f++) {
        size_t values =
            (size_t)(uses[f].n_ids + uses[f].n_bags) * (size_t)e->tables[e->feature_tables[f]].config.dim;
        size_t n_parts = activations[f].data ? rk_block_count(values, LOOKUP_VALUES) : 0,
               n = (size_t)uses[f].n;
        begins[f + 1] = begins[f] + (n_parts < n ? n_parts : n);
    }
    rk_parallel_for(begins[e->n_features], look_up_block, &l);
}

void rk_embeddings_lookup_all(rk_embeddings *e, bool training, const rk_activation *activations) {
    rk_batch_context_lookup_all(e, training ? &e->batch_contexts[e->now] : &e->eval_batch, activations,
                                false);
}

/* Bytes through memory: each use of a row, or the table once and activations out and in again. Rows that are
 * read once pass by either way. */
static bool is_early_lookup_faster(const rk_embeddings *e, int32_t f) {
    const rk_feature_bags *use = &e->batch_contexts[e->now].uses[f];
    const rk_table *table = &e->tables[e->feature_tables[f]];
    double row_bytes = (double)table->rows.dim * (double)rk_dtype_bytes(table->rows.dtype),
           table_bytes = (double)table->config.n_rows * row_bytes;
    double out_bytes = (double)use->n * (double)table->rows.dim * (double)sizeof(float);
    if (e->features[f].max_sequence_length || 2 * table_bytes > (double)e->cache_bytes) return false;
    return (double)use->n_ids * fmax(row_bytes, LINE_BYTES) > table_bytes + 2 * out_bytes;
}

void rk_embeddings_lookup_early(rk_embeddings *e, rk_activation *activations) {
    bool none_pays = rk_embeddings_bytes(e) <= e->cache_bytes; /* where all tables stay in the caches */
    for (int32_t f = 0; f < e->n_features; f++)
        if (none_pays || !is_early_lookup_faster(e, f)) activations[f].data = NULL;
    if (!none_pays) rk_batch_context_lookup_all(e, &e->batch_contexts[e->now], activations, false);
}

rk_status rk_embeddings_check_activations(const rk_embeddings *e, int64_t n, const rk_ids *ids,
                                          const rk_activation *activations) {
    RK_FAIL_IF(e->n_features > 0 && ids && !activations, RK_INVALID_ARGUMENT, "a lookup needs activations");
    for (int32_t f = 0; f < e->n_features && n > 0 && ids; f++)
        RK_FAIL_IF(!activations[f].data || activations[f].stride < rk_embeddings_width(e, f),
                   RK_INVALID_ARGUMENT,
                   "feature '%s': its activations need memory and a stride of at least %d",
                   e->features[f].name, rk_embeddings_width(e, f));
    return RK_OK;
}
