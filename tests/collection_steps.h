/* A collection's lookups and updates in one call each, for tests that look at their results. */
#ifndef RK_TESTS_COLLECTION_STEPS_H
#define RK_TESTS_COLLECTION_STEPS_H

#include <reckon/embeddings.h>

/* A lookup for evaluation, in memory that no lookup before it used. */
static inline rk_status peek_once(rk_embeddings *e, int64_t n, const rk_ids *ids,
                                  const rk_activation *activations) {
    rk_lookup *lookup;
    rk_status status = rk_lookup_create(e, &lookup);
    if (status != RK_OK) return status;
    status = rk_embeddings_peek(e, n, ids, lookup, activations);
    rk_lookup_free(lookup);
    return status;
}

#endif
