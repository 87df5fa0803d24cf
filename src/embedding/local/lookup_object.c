#include "embedding/local/lookup_object.h"

#include "base/memory.h"
#include "base/thread/parallel.h"
#include "batch/id_tensors.h"
#include "embedding/local/collection_internal.h"

struct rk_lookup {
    const rk_embeddings *embeddings;
    rk_embeddings *trained; /* the same, where a backward may follow; else NULL */
    rk_batch_context batch_context;
    bool had_strays; /* ids of the last peek were no rows */
    void *batch;     /* of a collection over ranks, in place of batch_context */
    rk_tensor_ids tensor_ids;
};

rk_status rk_lookup_create(const rk_embeddings *e, rk_lookup **out) {
    RK_FAIL_IF(!e, RK_INVALID_ARGUMENT, "a lookup needs a collection");
    RK_FAIL_IF(rk_row_source_fetches(e->source), RK_UNSUPPORTED,
               "rows that are not in this process are looked up by predictions alone");
    rk_lookup *lookup;
    RK_TRY(rk_alloc(1, sizeof *lookup, &lookup));
    lookup->embeddings = e;
    rk_status status = e->over_ranks ? e->over_ranks->create_batch(e, &lookup->batch)
                                     : rk_batch_context_init(&lookup->batch_context, (size_t)e->n_tables,
                                                             (size_t)e->n_features);
    if (status == RK_OK)
        *out = lookup;
    else
        rk_lookup_free(lookup);
    return status;
}

void rk_lookup_free(rk_lookup *lookup) {
    if (!lookup) return;
    const rk_embeddings *e = lookup->embeddings;
    rk_tensor_ids_release(&lookup->tensor_ids, e->n_features);
    if (e->over_ranks)
        e->over_ranks->free_batch(e, lookup->batch);
    else
        rk_batch_context_release(&lookup->batch_context, e->n_tables, e->n_features);
    rk_free(lookup);
}

rk_status rk_lookup_ids(rk_lookup *lookup, int64_t n, const rk_id_tensors *features, const rk_ids **ids) {
    RK_FAIL_IF(!lookup, RK_INVALID_ARGUMENT, "ids of tensors need an rk_lookup");
    return rk_tensor_ids_take(&lookup->tensor_ids, lookup->embeddings->n_features, n, features, ids);
}

rk_status rk_lookup_take_ids(rk_lookup *lookup, int64_t n, const rk_ids *ids) {
    lookup->trained = NULL;
    return rk_uses_prepare(lookup->embeddings, &lookup->batch_context, n, NULL, ids, true);
}

void rk_lookup_gather(const rk_lookup *lookup, int32_t feature, int64_t first, int64_t last,
                      const rk_activation *to) {
    rk_batch_context_lookup(lookup->embeddings, &lookup->batch_context, feature, first, last, to);
}

static rk_status check_lookup(const rk_lookup *lookup, const rk_embeddings *e) {
    RK_FAIL_IF(!lookup, RK_INVALID_ARGUMENT, "a lookup of a collection needs an rk_lookup");
    RK_FAIL_IF(lookup->embeddings != e, RK_INVALID_ARGUMENT,
               "the rk_lookup was created for another collection");
    return RK_OK;
}

static rk_status peek(rk_lookup *lookup, int64_t n, const rk_ids *ids, const rk_activation *activations,
                      bool checks_first) {
    const rk_embeddings *e = lookup->embeddings;
    RK_TRY(rk_uses_prepare(e, &lookup->batch_context, n, NULL, ids, checks_first));
    rk_uses_lookup_all(e, &lookup->batch_context, activations, !checks_first);
    lookup->had_strays = false;
    for (int32_t f = 0; f < e->n_features; f++)
        lookup->had_strays |=
            atomic_load_explicit(&lookup->batch_context.uses[f].strays, memory_order_relaxed);
    return RK_OK;
}

/* Ids are checked as they are looked up, which saves a pass over them, and again if one is no row: to be
 * dropped or refused. Data with such ids, padding, have more. */
static rk_status peek_checked(rk_lookup *lookup, int64_t n, const rk_ids *ids,
                              const rk_activation *activations) {
    const rk_embeddings *e = lookup->embeddings;
    if (e->over_ranks) return e->over_ranks->look_up(e, lookup->batch, n, ids, false, activations);
    RK_TRY(rk_check_activations(e, n, ids, activations));
    bool checks_first = lookup->had_strays;
    RK_TRY(peek(lookup, n, ids, activations, checks_first));
    return lookup->had_strays && !checks_first ? peek(lookup, n, ids, activations, true) : RK_OK;
}

rk_status rk_embeddings_peek(const rk_embeddings *e, int64_t n, const rk_ids *ids, rk_lookup *lookup,
                             const rk_activation *activations) {
    rk_status status;
    RK_TRY(check_lookup(lookup, e));
    lookup->trained = NULL;
    RK_ON_POOL(e->pool, status = peek_checked(lookup, n, ids, activations));
    return status;
}

static rk_status look_up(rk_embeddings *e, int64_t n, const rk_ids *ids, rk_lookup *lookup,
                         const rk_activation *activations) {
    if (e->over_ranks) return e->over_ranks->look_up(e, lookup->batch, n, ids, true, activations);
    RK_TRY(rk_check_activations(e, n, ids, activations));
    RK_TRY(rk_batch_context_dedup(e, &lookup->batch_context, n, NULL, ids));
    rk_uses_lookup_all(e, &lookup->batch_context, activations, false);
    return RK_OK;
}

rk_status rk_embeddings_lookup(rk_embeddings *e, int64_t n, const rk_ids *ids, rk_lookup *lookup,
                               const rk_activation *activations) {
    rk_status status;
    RK_TRY(check_lookup(lookup, e));
    lookup->trained = NULL;
    RK_ON_POOL(e->pool, status = look_up(e, n, ids, lookup, activations));
    if (status == RK_OK) lookup->trained = e;
    return status;
}

static rk_status check_follows_lookup(const rk_lookup *lookup) {
    RK_FAIL_IF(!lookup || !lookup->trained, RK_INVALID_ARGUMENT,
               "a backward must follow an rk_embeddings_lookup, once for each");
    return RK_OK;
}

static rk_status check_gradients(const rk_lookup *lookup, const rk_activation *gradients) {
    RK_FAIL_IF(lookup->embeddings->n_features > 0 && !gradients, RK_INVALID_ARGUMENT,
               "a backward needs gradients");
    return rk_batch_context_check_gradients(lookup->embeddings, &lookup->batch_context, gradients);
}

static rk_status backward_here(rk_lookup *lookup, const rk_activation *gradients) {
    RK_TRY(check_gradients(lookup, gradients));
    rk_batch_context_set_gradients(lookup->embeddings, &lookup->batch_context, gradients);
    return rk_pending_gradients_add(lookup->trained, &lookup->batch_context);
}

static rk_status backward(rk_lookup *lookup, const rk_activation *gradients) {
    const rk_over_ranks_ops *over_ranks = lookup->embeddings->over_ranks;
    RK_TRY(over_ranks ? over_ranks->backward(lookup->trained, lookup->batch, gradients)
                      : backward_here(lookup, gradients));
    lookup->trained = NULL;
    return RK_OK;
}

rk_status rk_lookup_backward(rk_lookup *lookup, const rk_activation *gradients) {
    rk_status status;
    RK_TRY(check_follows_lookup(lookup));
    RK_ON_POOL(lookup->embeddings->pool, status = backward(lookup, gradients));
    return status;
}

static void update_piece(void *context, size_t task, int thread) {
    (void)thread;
    const rk_lookup *lookup = context;
    rk_batch_context_update_piece(lookup->embeddings, &lookup->batch_context, task);
}

/* Where no other backward waits, rows are updated as their gradients are summed. */
static rk_status apply_gradients(rk_lookup *lookup, const rk_activation *gradients) {
    if (lookup->trained->pending.n_backwards || lookup->trained->over_ranks) {
        rk_embeddings *e = lookup->trained;
        RK_TRY(backward(lookup, gradients));
        return rk_embeddings_step(e);
    }
    RK_TRY(check_gradients(lookup, gradients));
    rk_batch_context *batch_context = &lookup->batch_context;
    RK_TRY(rk_batch_context_launch(lookup->trained, batch_context, gradients, true));
    rk_parallel_for(batch_context->piece_begins[lookup->trained->n_tables], update_piece, lookup);
    rk_embeddings_count_step(lookup->trained);
    lookup->trained = NULL;
    return RK_OK;
}

rk_status rk_lookup_apply_gradients(rk_lookup *lookup, const rk_activation *gradients) {
    rk_status status;
    RK_TRY(check_follows_lookup(lookup));
    RK_ON_POOL(lookup->embeddings->pool, status = apply_gradients(lookup, gradients));
    return status;
}
