#include "embedding/local/local_lookup.h"

#include "base/memory.h"
#include "base/thread/parallel.h"
#include "embedding/local/collection_internal.h"

typedef struct local_lookup {
    rk_batch_context batch_context;
    bool had_strays; /* ids of the last eval lookup were no rows */
} local_lookup;

rk_status rk_local_lookup_create(const rk_embeddings *e, void **out) {
    local_lookup *lookup;
    for (int32_t t = 0; t < e->n_tables; t++)
        RK_FAIL_IF(e->tables[t].tier, RK_UNSUPPORTED,
                   "table '%s' has rows on a disk, which a model in training reads for its own steps only\n"
                   "hint: open a checkpoint of it",
                   e->tables[t].config.name);
    RK_TRY(rk_alloc(1, sizeof *lookup, &lookup));
    rk_status status =
        rk_batch_context_init(&lookup->batch_context, (size_t)e->n_tables, (size_t)e->n_features);
    if (status == RK_OK)
        *out = lookup;
    else
        rk_local_lookup_free(e, lookup);
    return status;
}

void rk_local_lookup_free(const rk_embeddings *e, void *lookup) {
    if (lookup)
        rk_batch_context_release(&((local_lookup *)lookup)->batch_context, e->n_tables, e->n_features);
    rk_free(lookup);
}

rk_status rk_local_lookup_set_ids(const rk_embeddings *e, void *lookup, int64_t n, const rk_ids *ids) {
    return rk_batch_context_prepare_bags(e, &((local_lookup *)lookup)->batch_context, n, NULL, ids, true);
}

void rk_local_lookup_read_feature(const rk_embeddings *e, const void *lookup, int32_t feature, int64_t first,
                                  int64_t last, const rk_activation *to) {
    rk_batch_context_lookup(e, &((const local_lookup *)lookup)->batch_context, feature, first, last, to);
}

static rk_status prepare_and_look_up(const rk_embeddings *e, local_lookup *lookup, int64_t n,
                                     const rk_ids *ids, const rk_activation *activations, bool checks_first) {
    RK_TRY(rk_batch_context_prepare_bags(e, &lookup->batch_context, n, NULL, ids, checks_first));
    rk_batch_context_lookup_all(e, &lookup->batch_context, activations, !checks_first);
    lookup->had_strays = false;
    for (int32_t f = 0; f < e->n_features; f++)
        lookup->had_strays |=
            atomic_load_explicit(&lookup->batch_context.uses[f].strays, memory_order_relaxed);
    return RK_OK;
}

/* Ids are checked as they are looked up, which saves a pass over them, and again if one is no row: to be
 * dropped or refused. Data with such ids, padding, have more. */
rk_status rk_local_lookup_eval(const rk_embeddings *e, void *batch, int64_t n, const rk_ids *ids,
                               const rk_activation *activations) {
    local_lookup *lookup = batch;
    RK_TRY(rk_embeddings_check_activations(e, n, ids, activations));
    bool checks_first = lookup->had_strays;
    RK_TRY(prepare_and_look_up(e, lookup, n, ids, activations, checks_first));
    return lookup->had_strays && !checks_first ? prepare_and_look_up(e, lookup, n, ids, activations, true)
                                               : RK_OK;
}

rk_status rk_local_lookup_look_up(rk_embeddings *e, void *lookup, int64_t n, const rk_ids *ids,
                                  const rk_activation *activations) {
    rk_batch_context *batch_context = &((local_lookup *)lookup)->batch_context;
    for (int32_t t = 0; t < e->n_tables;
         t++) /* of several lookups that wait, only the last would keep its rows */
        RK_FAIL_IF(e->tables[t].dynamic && !e->pins_rows, RK_UNSUPPORTED,
                   "table '%s' is dynamic, and such tables are trained by a model's steps only\n"
                   "hint: rk_embeddings_lookup_eval looks up without training",
                   e->tables[t].config.name);
    RK_TRY(rk_embeddings_check_activations(e, n, ids, activations));
    RK_TRY(rk_batch_context_dedup(e, batch_context, n, NULL, ids));
    rk_batch_context_lookup_all(e, batch_context, activations, false);
    return RK_OK;
}

static rk_status check_gradients_finite(const rk_embeddings *e, const rk_batch_context *batch_context,
                                        const rk_activation *gradients) {
    RK_FAIL_IF(e->n_features > 0 && !gradients, RK_INVALID_ARGUMENT, "a backward needs gradients");
    return rk_batch_context_check_gradients_finite(e, batch_context, gradients);
}

rk_status rk_local_lookup_backward(rk_embeddings *e, void *lookup, const rk_activation *gradients) {
    rk_batch_context *batch_context = &((local_lookup *)lookup)->batch_context;
    RK_TRY(check_gradients_finite(e, batch_context, gradients));
    rk_batch_context_set_gradients(e, batch_context, gradients);
    return rk_pending_gradients_add(e, batch_context);
}

/* An update of a batch's own rows. */
typedef struct update {
    const rk_embeddings *embeddings;
    const rk_batch_context *batch_context;
} update;

static void run_update_piece(void *context, size_t task, int thread) {
    (void)thread;
    const update *u = context;
    rk_batch_context_update_piece(u->embeddings, u->batch_context, task);
}

/* Where no other backward waits, rows are updated as their gradients are summed. */
rk_status rk_local_lookup_apply_gradients(rk_embeddings *e, void *lookup, const rk_activation *gradients) {
    rk_batch_context *batch_context = &((local_lookup *)lookup)->batch_context;
    if (e->pending.n_backwards) {
        RK_TRY(rk_local_lookup_backward(e, lookup, gradients));
        return rk_pending_gradients_apply(e);
    }
    RK_TRY(check_gradients_finite(e, batch_context, gradients));
    RK_TRY(rk_batch_context_begin_update(e, batch_context, gradients, true));
    update u = {e, batch_context};
    rk_parallel_for(batch_context->piece_begins[e->n_tables], run_update_piece, &u);
    rk_embeddings_increment_step(e);
    return RK_OK;
}
