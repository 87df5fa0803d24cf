/* A collection's lookups and updates in one call each, for tests that look at their results. Training goes
 * the way that a model's step goes; tests/embedding/test_lookup.c compares it with rk_lookup's. */
#ifndef RK_TESTS_COLLECTION_STEPS_H
#define RK_TESTS_COLLECTION_STEPS_H

#include "embedding/local/collection_internal.h"

static inline rk_status look_up(rk_embeddings *e, int64_t n, const rk_ids *ids,
                                const rk_activation *activations) {
    RK_TRY(rk_embeddings_check_activations(e, n, ids, activations));
    RK_TRY(rk_embeddings_dedup(e, n, ids, true));
    rk_embeddings_lookup_all(e, true, activations);
    return RK_OK;
}

static inline rk_status apply_gradients(rk_embeddings *e, const rk_activation *gradients) {
    RK_TRY(rk_embeddings_begin_update(e, gradients, false));
    rk_embeddings_update_all(e);
    return RK_OK;
}

/* A lookup for evaluation, in memory that no lookup before it used. */
static inline rk_status look_up_eval(rk_embeddings *e, int64_t n, const rk_ids *ids,
                                     const rk_activation *activations) {
    rk_lookup *lookup;
    RK_TRY(rk_lookup_create(e, &lookup));
    rk_status status = rk_embeddings_lookup_eval(e, n, ids, lookup, activations);
    rk_lookup_free(lookup);
    return status;
}

#endif
