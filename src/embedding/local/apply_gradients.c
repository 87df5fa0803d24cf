/* From the gradients of a batch's activations to updated rows: a launch, then pieces of rows in any order, by
 * any thread. */
#include <stdatomic.h>

#include "base/thread/parallel.h"
#include "embedding/local/collection_internal.h"
#include "base/thread/partition.h"

enum { CHECK_SAMPLES = 256 };

typedef struct application {
    const rk_embeddings *embeddings;
    const rk_activation *gradients;
    const rk_feature_bags *uses;
    size_t blocks; /* of samples, a feature: of the longest */
    atomic_bool not_finite;
} application;

/* Features of frozen tables need no gradients. */
static bool feature_needs_gradients(const application *a, int32_t f) {
    return !a->embeddings->tables[a->embeddings->feature_tables[f]].config.frozen;
}

/* Whether a feature's gradients lie right beside those of the feature before it, sample by sample. */
static bool adjoins_previous_gradients(const application *a, int32_t f) {
    if (f == 0 || a->uses[f].n == 0 || a->uses[f].n != a->uses[f - 1].n || !feature_needs_gradients(a, f - 1))
        return false;
    const rk_activation *before = &a->gradients[f - 1], *at = &a->gradients[f];
    return at->stride == before->stride &&
           at->data == before->data + rk_embeddings_width(a->embeddings, f - 1);
}

/* width: values from the feature's first one on. */
static bool is_gradient_finite(const application *a, int32_t f, int64_t sample, int64_t width) {
    bool finite;
    rk_finite_check(a->gradients[f].data + sample * a->gradients[f].stride, width, &finite);
    return finite;
}

/* Gradients are read as they lie in memory: features that follow each other are checked with the first of
 * them. */
static void check_gradient_block(void *context, size_t task, int thread) {
    (void)thread;
    application *a = context;
    int32_t f = (int32_t)(task / a->blocks), n_features = a->embeddings->n_features;
    if (!feature_needs_gradients(a, f) || adjoins_previous_gradients(a, f)) return;
    int64_t width = rk_embeddings_width(a->embeddings, f);
    for (int32_t next = f + 1;
         next < n_features && feature_needs_gradients(a, next) && adjoins_previous_gradients(a, next); next++)
        width += rk_embeddings_width(a->embeddings, next);
    int64_t first = (int64_t)(task % a->blocks) * CHECK_SAMPLES, n = a->uses[f].n,
            last = first + CHECK_SAMPLES < n ? first + CHECK_SAMPLES : n;
    bool finite = true;
    for (int64_t s = first; s < last; s++) finite &= is_gradient_finite(a, f, s, width);
    if (!finite) atomic_store(&a->not_finite, true);
}

static rk_status find_non_finite_gradient(const application *a) {
    for (int32_t f = 0; f < a->embeddings->n_features; f++)
        for (int64_t s = 0; s < a->uses[f].n && feature_needs_gradients(a, f); s++)
            RK_FAIL_IF(!is_gradient_finite(a, f, s, rk_embeddings_width(a->embeddings, f)), RK_NOT_FINITE,
                       "feature '%s': sample %lld: the gradient is not a finite number",
                       a->embeddings->features[f].name, (long long)s);
    return rk_error(RK_INTERNAL, "a gradient is not finite, but a second check found none");
}

rk_status rk_batch_context_check_gradients_finite(const rk_embeddings *e,
                                                  const rk_batch_context *batch_context,
                                                  const rk_activation *gradients) {
    application a = {.embeddings = e, .gradients = gradients, .uses = batch_context->uses};
    RK_FAIL_IF(e->n_features > 0 && !gradients, RK_INVALID_ARGUMENT, "apply_gradients needs gradients");
    for (int32_t f = 0; f < e->n_features; f++)
        RK_FAIL_IF(a.uses[f].n > 0 && feature_needs_gradients(&a, f) &&
                       (!gradients[f].data || gradients[f].stride < rk_embeddings_width(e, f)),
                   RK_INVALID_ARGUMENT, "feature '%s': its gradients need memory and a stride of at least %d",
                   e->features[f].name, rk_embeddings_width(e, f));
    for (int32_t f = 0; f < e->n_features; f++) {
        size_t blocks = rk_block_count((size_t)a.uses[f].n, CHECK_SAMPLES);
        if (blocks > a.blocks) a.blocks = blocks;
    }
    rk_parallel_for(a.blocks * (size_t)e->n_features, check_gradient_block, &a);
    return atomic_load(&a.not_finite) ? find_non_finite_gradient(&a) : RK_OK;
}

void rk_batch_context_set_gradients(const rk_embeddings *e, rk_batch_context *batch_context,
                                    const rk_activation *gradients) {
    for (int32_t t = 0; t < e->n_tables; t++) {
        batch_context->piece_begins[t + 1] = batch_context->piece_begins[t];
        if (!rk_table_takes_updates(e, t)) continue;
        rk_row_uses_set_gradients(e, &batch_context->plans[t], t, gradients);
        batch_context->piece_begins[t + 1] += rk_row_uses_n_pieces(&batch_context->plans[t]);
    }
}

rk_fused_update_args rk_table_make_update_args(const rk_table *table, const rk_update *update) {
    rk_fused_update_args args = {
        .rows = table->rows,
        .update = update,
        .l2 = (float)table->l2,
        .l2_full = (float)table->l2_full,
        .seed = rk_table_rounding_seed(table, table->step + 1),
    };
    for (int s = 0; s < table->n_slots; s++) {
        args.slots[s] = table->slot_values[s];
        args.slot_widths[s] = table->slots[s].per_row ? 1 : table->config.dim;
    }
    return args;
}

void rk_batch_context_update_piece(const rk_embeddings *e, const rk_batch_context *batch_context,
                                   size_t number) {
    size_t t = rk_partition_find_item(batch_context->piece_begins, (size_t)e->n_tables, number);
    const rk_row_uses *plan = &batch_context->plans[t];
    const rk_table *table = &e->tables[t];
    rk_use_piece piece = rk_row_uses_piece(plan, number - batch_context->piece_begins[t]);
    int64_t first_row = (int64_t)piece.part << plan->shift, part_rows = (int64_t)1 << plan->shift,
            rows_left = table->config.n_rows - first_row;
    rk_fused_update_args args = rk_table_make_update_args(table, &batch_context->updates[t]);
    args.first_row = first_row;
    args.n_places = part_rows < rows_left ? part_rows : rows_left;
    args.uses = plan->uses + piece.first;
    args.n_uses = piece.last - piece.first;
    args.sources = plan->sources;
    args.n_sources = plan->n_sources;
    args.has_leaves = plan->has_leaves;
    args.bags = plan->weighted ? plan->bags : NULL;
    args.coefficients = plan->weighted ? plan->coefficients : NULL;
    rk_fused_update(&args);
}

void rk_embeddings_update_piece(const rk_embeddings *e, size_t number) {
    rk_batch_context_update_piece(e, &e->batch_contexts[!e->now], number);
}

size_t rk_embeddings_n_update_pieces(const rk_embeddings *e) {
    const rk_batch_context *batch_context = &e->batch_contexts[!e->now];
    return batch_context->is_launched ? batch_context->piece_begins[e->n_tables] : 0;
}

void rk_embeddings_increment_step(rk_embeddings *e) {
    for (int32_t t = 0; t < e->n_tables; t++) e->tables[t].step += rk_table_takes_updates(e, t);
}

void rk_embeddings_end_update(rk_embeddings *e) {
    rk_batch_context *batch_context = &e->batch_contexts[!e->now];
    if (!batch_context->is_launched) return;
    rk_embeddings_increment_step(e);
    batch_context->is_launched = false;
    if (!e->batch_contexts[e->now].is_deduped)
        e->now = !e->now; /* no batch came between: its memory serves the next one */
}

void rk_embeddings_set_update_coefficients(const rk_embeddings *e, rk_update *updates) {
    for (int32_t t = 0; t < e->n_tables; t++)
        if (rk_table_takes_updates(e, t))
            rk_optimizer_set_step_coefficients(&e->tables[t].optimizer, e->tables[t].step,
                                               e->learning_rate_factor, &updates[t]);
}

rk_status rk_batch_context_begin_update(const rk_embeddings *e, rk_batch_context *batch_context,
                                        const rk_activation *gradients, bool known_finite) {
    RK_FAIL_IF(!batch_context->is_deduped, RK_INVALID_ARGUMENT,
               "apply_gradients must follow a lookup for training");
    if (!known_finite) RK_TRY(rk_batch_context_check_gradients_finite(e, batch_context, gradients));
    rk_batch_context_set_gradients(e, batch_context, gradients);
    rk_embeddings_set_update_coefficients(e, batch_context->updates);
    batch_context->is_deduped = false;
    batch_context->is_launched = true;
    return RK_OK;
}

rk_status rk_embeddings_begin_update(rk_embeddings *e, const rk_activation *gradients, bool known_finite) {
    RK_TRY(rk_batch_context_begin_update(e, &e->batch_contexts[e->now], gradients, known_finite));
    e->now = !e->now;
    return RK_OK;
}

static void run_update_piece(void *context, size_t task, int thread) {
    (void)thread;
    rk_embeddings_update_piece(context, task);
}

void rk_embeddings_update_all(rk_embeddings *e) {
    rk_parallel_for(rk_embeddings_n_update_pieces(e), run_update_piece, e);
    rk_embeddings_end_update(e);
}
