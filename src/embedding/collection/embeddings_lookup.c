/* rk_lookup, and the steps of a batch through a collection: what a caller may do in which order. How it is
 * done is in the collection's functions (rk_embeddings_ops). */
#include <pthread.h>

#include "base/integers.h"
#include "base/memory.h"
#include "base/thread/parallel.h"
#include "base/timestamp.h"
#include "batch/id_tensors.h"
#include "embedding/local/collection_internal.h"

struct rk_lookup {
    const rk_embeddings *embeddings;
    rk_embeddings *trained;    /* the same, where a backward may follow; else NULL */
    int64_t number;            /* batches of dynamic tables before it, */
    rk_lookup *before, *after; /* and those beside it that wait for their backwards, too */
    void *batch;               /* the collection's */
    rk_tensor_ids tensor_ids;
};

rk_status rk_lookup_create(const rk_embeddings *e, rk_lookup **out) {
    RK_FAIL_IF(!e, RK_INVALID_ARGUMENT, "a lookup needs a collection");
    RK_FAIL_IF(rk_row_source_is_remote(rk_embeddings_row_source(e)), RK_UNSUPPORTED,
               "rows that are not in this process are looked up by predictions alone");
    rk_lookup *lookup;
    RK_TRY(rk_alloc(1, sizeof *lookup, &lookup));
    lookup->embeddings = e;
    rk_status status = e->ops->create_batch(e, &lookup->batch);
    if (status == RK_OK)
        *out = lookup;
    else
        rk_lookup_free(lookup);
    return status;
}

/* Of the lists of all collections, in the order of the lookups. */
static pthread_mutex_t waiting_lock = PTHREAD_MUTEX_INITIALIZER;

static void begin_waiting_for_backward(rk_lookup *lookup, rk_embeddings *e) {
    lookup->trained = e;
    atomic_fetch_add(&e->n_waiting, 1);
    pthread_mutex_lock(&waiting_lock);
    lookup->before = e->last_waiting;
    lookup->after = NULL;
    *(lookup->before ? &lookup->before->after : &e->first_waiting) = lookup;
    e->last_waiting = lookup;
    pthread_mutex_unlock(&waiting_lock);
}

/* No backward follows any more. */
static void end_waiting_for_backward(rk_lookup *lookup) {
    rk_embeddings *e = lookup->trained;
    if (!e) return;
    pthread_mutex_lock(&waiting_lock);
    *(lookup->before ? &lookup->before->after : &e->first_waiting) = lookup->after;
    *(lookup->after ? &lookup->after->before : &e->last_waiting) = lookup->before;
    pthread_mutex_unlock(&waiting_lock);
    atomic_fetch_sub(&e->n_waiting, 1);
    lookup->trained = NULL;
}

void rk_lookup_free(rk_lookup *lookup) {
    if (!lookup) return;
    end_waiting_for_backward(lookup);
    const rk_embeddings *e = lookup->embeddings;
    rk_tensor_ids_release(&lookup->tensor_ids, e->n_features);
    e->ops->free_batch(e, lookup->batch);
    rk_free(lookup);
}

rk_status rk_lookup_ids(rk_lookup *lookup, int64_t n, const rk_id_tensors *features, const rk_ids **ids) {
    RK_FAIL_IF(!lookup, RK_INVALID_ARGUMENT, "ids of tensors need an rk_lookup");
    return rk_tensor_ids_from_tensors(&lookup->tensor_ids, lookup->embeddings->n_features, n, features, ids);
}

rk_status rk_lookup_keyed_ids(rk_lookup *lookup, int64_t n, int32_t n_keys, const rk_id_tensors *tensors,
                              const int32_t *keys, const rk_ids **ids) {
    rk_status status;
    RK_FAIL_IF(!lookup, RK_INVALID_ARGUMENT, "ids of tensors need an rk_lookup");
    const rk_embeddings *e = lookup->embeddings;
    RK_ON_POOL(e->pool, status = rk_tensor_ids_from_keyed(&lookup->tensor_ids, e->n_features, n, n_keys,
                                                          tensors, keys, ids));
    return status;
}

static rk_status check_lookup(const rk_lookup *lookup, const rk_embeddings *e) {
    RK_FAIL_IF(!lookup, RK_INVALID_ARGUMENT, "a lookup of a collection needs an rk_lookup");
    RK_FAIL_IF(lookup->embeddings != e, RK_INVALID_ARGUMENT,
               "the rk_lookup was created for another collection");
    return RK_OK;
}

rk_status rk_embeddings_lookup_eval(const rk_embeddings *e, int64_t n, const rk_ids *ids, rk_lookup *lookup,
                                    const rk_activation *activations) {
    rk_status status;
    RK_TRY(check_lookup(lookup, e));
    end_waiting_for_backward(lookup);
    RK_ON_POOL(e->pool, status = e->ops->lookup_eval(e, lookup->batch, n, ids, activations));
    return status;
}

/* The number of the oldest lookup that waits, or whose step is to come; INT64_MAX: there is none. */
static int64_t find_oldest_waiting_lookup(const rk_embeddings *e) {
    pthread_mutex_lock(&waiting_lock);
    int64_t oldest = e->first_waiting ? e->first_waiting->number : INT64_MAX;
    pthread_mutex_unlock(&waiting_lock);
    return e->pending.n_backwards ? rk_min_i64(oldest, e->oldest_pending) : oldest;
}

/* Rows that are still to be trained stay where they are, and their keys with them. */
static int64_t pin_rows_of_waiting_lookups(rk_embeddings *e) {
    return e->pins_rows ? e->ops->pin_rows(e, find_oldest_waiting_lookup(e)) : 0;
}

rk_status rk_embeddings_set_timestamp(rk_embeddings *e, double seconds) {
    return rk_timestamp_of_batch(seconds, &e->timestamp);
}

rk_status rk_embeddings_lookup(rk_embeddings *e, int64_t n, const rk_ids *ids, rk_lookup *lookup,
                               const rk_activation *activations) {
    rk_status status;
    RK_TRY(check_lookup(lookup, e));
    end_waiting_for_backward(lookup);
    lookup->number = pin_rows_of_waiting_lookups(e);
    RK_ON_POOL(e->pool, status = e->ops->look_up(e, lookup->batch, n, ids, activations));
    if (status == RK_OK) begin_waiting_for_backward(lookup, e);
    return status;
}

static rk_status check_lookup_precedes_backward(const rk_lookup *lookup) {
    RK_FAIL_IF(!lookup || !lookup->trained, RK_INVALID_ARGUMENT,
               "a backward must follow an rk_embeddings_lookup, once for each");
    return RK_OK;
}

/* gradients summed up for a step, or applied at once. */
static rk_status run_backward(rk_lookup *lookup, const rk_activation *gradients, bool applies) {
    rk_status status;
    RK_TRY(check_lookup_precedes_backward(lookup));
    rk_embeddings *e = lookup->trained;
    int64_t oldest = e->pending.n_backwards ? rk_min_i64(e->oldest_pending, lookup->number) : lookup->number;
    RK_ON_POOL(e->pool,
               status = (applies ? e->ops->apply_gradients : e->ops->backward)(e, lookup->batch, gradients));
    if (status != RK_OK) return status;
    e->oldest_pending = oldest;
    end_waiting_for_backward(lookup);
    return RK_OK;
}

rk_status rk_lookup_backward(rk_lookup *lookup, const rk_activation *gradients) {
    return run_backward(lookup, gradients, false);
}

rk_status rk_lookup_apply_gradients(rk_lookup *lookup, const rk_activation *gradients) {
    return run_backward(lookup, gradients, true);
}

rk_status rk_embeddings_step(rk_embeddings *e) {
    RK_FAIL_IF(!e->pending.n_backwards, RK_INVALID_ARGUMENT,
               "rk_embeddings_step must follow an rk_lookup_backward");
    return e->ops->step(e);
}

void rk_embeddings_zero_gradients(rk_embeddings *e) {
    e->ops->zero_gradients(e);
}
