/* A collection over ranks, a call at a time: each waits until its messages are there. The tables that the
 * caller sees have no rows; those are in a sharded collection (sharded/sharded_internal.h), whose batches are
 * the lookups here. Where a rank cannot go on, all agree on its error; where they cannot even do that, the
 * communicator ends. */
#include "embedding/collection/sharded_embeddings.h"

#include "base/memory.h"
#include "base/thread/parallel.h"

enum { LOOKUP_SAMPLES = 512 };

static void free_batch_messages(rk_in_flight_batch *j) {
    rk_all_to_all_free(j->ids);
    rk_all_to_all_free(j->rows);
    rk_all_to_all_free(j->gradients);
    j->ids = j->rows = j->gradients = NULL;
}

static rk_status create_in_flight_batch(const rk_embeddings *e, void **out) {
    rk_in_flight_batch *j;
    RK_TRY(rk_alloc(1, sizeof *j, &j));
    rk_status status = rk_in_flight_batch_init(rk_sharded_embeddings_store(e), j);
    if (status != RK_OK) {
        rk_in_flight_batch_release(rk_sharded_embeddings_store(e), j);
        rk_free(j);
        return status;
    }
    *out = j;
    return RK_OK;
}

static void free_in_flight_batch(const rk_embeddings *e, void *batch) {
    if (batch) rk_in_flight_batch_release(rk_sharded_embeddings_store(e), batch);
    rk_free(batch);
}

/* ---- Looking up. */

/* In place of ids that were refused, so that every rank has begun the same. */
static rk_status send_no_ids(rk_sharded *s, rk_in_flight_batch *j) {
    for (int32_t r = 0; r < s->size; r++) s->messages[r] = (rk_message){0};
    return rk_all_to_all_begin(s->comm, RK_CHANNEL_IDS, s->messages, s->owners,
                               s->owns ? s->trainers : s->nobody, &j->ids);
}

static rk_status send_ids(rk_sharded *s, rk_in_flight_batch *j, int64_t n, const rk_ids *ids,
                          const rk_activation *activations) {
    rk_status status = rk_embeddings_check_activations(s->trainer_tables, n, ids, activations);
    if (status == RK_OK) status = rk_in_flight_batch_input_dist(s, j, n, ids);
    if (!j->ids) RK_TRY(send_no_ids(s, j));
    status = rk_comm_agree_on_status(s->comm, status);
    rk_status arrived = rk_all_to_all_wait(j->ids);
    return status == RK_OK ? arrived : status;
}

static rk_status receive_rows(rk_sharded *s, rk_in_flight_batch *j) {
    if (s->owns) RK_TRY(rk_in_flight_batch_read_ids(s, j));
    RK_TRY(rk_in_flight_batch_serve_rows(s, j));
    RK_TRY(rk_all_to_all_wait(j->rows));
    RK_TRY(rk_in_flight_batch_output_dist(s, j));
    return rk_in_flight_batch_share_rows(s, j);
}

typedef struct lookup {
    const rk_sharded *sharded;
    const rk_in_flight_batch *batch;
    const rk_activation *activations;
    int64_t n;
    size_t n_blocks;
} lookup;

static void look_up_block(void *context, size_t task, int thread) {
    (void)thread;
    const lookup *l = context;
    int32_t f = (int32_t)(task / l->n_blocks);
    int64_t first = (int64_t)(task % l->n_blocks) * LOOKUP_SAMPLES, last = first + LOOKUP_SAMPLES;
    rk_activation to = l->activations[f];
    to.data += first * to.stride;
    if (to.lengths) to.lengths += first;
    rk_in_flight_batch_lookup(l->sharded, l->batch, f, first, last < l->n ? last : l->n, &to);
}

static rk_status send_ids_and_look_up(const rk_embeddings *e, rk_in_flight_batch *j,
                                      rk_in_flight_batch_kind kind, int64_t n, const rk_ids *ids,
                                      const rk_activation *activations) {
    rk_sharded *s = rk_sharded_embeddings_store(e);
    j->kind = kind;
    rk_status status = send_ids(s, j, n, ids, activations);
    if (status == RK_OK) status = rk_sharded_embeddings_abort(s, receive_rows(s, j));
    free_batch_messages(j);
    RK_TRY(status);
    lookup l = {s, j, activations, n, rk_block_count((size_t)n, LOOKUP_SAMPLES)};
    rk_parallel_for(l.n_blocks * (size_t)e->n_features, look_up_block, &l);
    return RK_OK;
}

static rk_status lookup_eval_over_ranks(const rk_embeddings *e, void *batch, int64_t n, const rk_ids *ids,
                                        const rk_activation *activations) {
    return send_ids_and_look_up(e, batch, RK_IN_FLIGHT_EVAL, n, ids, activations);
}

static rk_status look_up_over_ranks(rk_embeddings *e, void *batch, int64_t n, const rk_ids *ids,
                                    const rk_activation *activations) {
    ((rk_in_flight_batch *)batch)->word = e->timestamp;
    return send_ids_and_look_up(e, batch, RK_IN_FLIGHT_TRAIN, n, ids, activations);
}

/* ---- Gradients. */

static rk_status check_gradients_finite(const rk_embeddings *e, const rk_in_flight_batch *j,
                                        const rk_activation *gradients) {
    RK_FAIL_IF(e->n_features > 0 && !gradients, RK_INVALID_ARGUMENT, "a backward needs gradients");
    return rk_batch_context_check_gradients_finite(e, &j->batch_context, gradients);
}

/* Sums of finite gradients may be too large, which only their owner sees. */
static rk_status receive_gradients(rk_sharded *s, rk_in_flight_batch *j) {
    rk_batch_context *batch_context = &s->store->batch_contexts[s->store->now];
    RK_TRY(rk_in_flight_batch_receive_gradients(s, j));
    RK_TRY(rk_batch_context_check_gradients_finite(s->store, batch_context, s->activations));
    rk_batch_context_set_gradients(s->store, batch_context, s->activations);
    return RK_OK;
}

static rk_status send_and_await_gradients(rk_sharded *s, rk_in_flight_batch *j,
                                          const rk_activation *gradients) {
    RK_TRY(rk_in_flight_batch_send_gradients(s, j, gradients));
    return rk_all_to_all_wait(j->gradients);
}

static rk_status backward_over_ranks(rk_embeddings *e, void *batch, const rk_activation *gradients) {
    rk_sharded *s = rk_sharded_embeddings_store(e);
    rk_in_flight_batch *j = batch;
    RK_TRY(rk_comm_agree_on_status(s->comm, check_gradients_finite(e, j, gradients)));
    rk_status status = rk_sharded_embeddings_abort(s, send_and_await_gradients(s, j, gradients));
    if (status == RK_OK) status = rk_comm_agree_on_status(s->comm, receive_gradients(s, j));
    if (status == RK_OK)
        status = rk_sharded_embeddings_abort(
            s, rk_pending_gradients_add(s->store, &s->store->batch_contexts[s->store->now]));
    free_batch_messages(j);
    RK_TRY(status);
    e->pending.n_backwards++;
    return RK_OK;
}

static void zero_gradients_over_ranks(rk_embeddings *e) {
    rk_pending_gradients_zero(rk_sharded_embeddings_store(e)->store);
    rk_pending_gradients_zero(e);
}

static rk_status step_over_ranks(rk_embeddings *e) {
    RK_TRY(rk_pending_gradients_apply(rk_sharded_embeddings_store(e)->store));
    zero_gradients_over_ranks(e);
    return RK_OK;
}

static rk_status apply_gradients_over_ranks(rk_embeddings *e, void *batch, const rk_activation *gradients) {
    RK_TRY(backward_over_ranks(e, batch, gradients));
    return step_over_ranks(e);
}

/* ---- From beginning to end. */

static rk_store *sharded_store_of(const rk_embeddings *e) {
    return rk_sharded_as_store(rk_sharded_embeddings_store(e));
}

static uint64_t bytes_over_ranks(const rk_embeddings *e) {
    return sharded_store_of(e)->ops->bytes(sharded_store_of(e));
}

static void scale_learning_rate_over_ranks(rk_embeddings *e, double factor) {
    sharded_store_of(e)->ops->scale_learning_rate(sharded_store_of(e), factor);
}

static int64_t pin_rows_over_ranks(rk_embeddings *e, int64_t oldest) {
    rk_embeddings *store = rk_sharded_embeddings_store(e)->store;
    return rk_local_embeddings.pin_rows(store, oldest);
}

static void free_over_ranks(rk_embeddings *e) {
    rk_store *store = sharded_store_of(e);
    e->ops = &rk_local_embeddings; /* the tables are freed with it */
    store->ops->free(store);
}

const rk_embeddings_ops rk_over_ranks = {.free = free_over_ranks,
                                         .bytes = bytes_over_ranks,
                                         .create_batch = create_in_flight_batch,
                                         .free_batch = free_in_flight_batch,
                                         .lookup_eval = lookup_eval_over_ranks,
                                         .look_up = look_up_over_ranks,
                                         .backward = backward_over_ranks,
                                         .apply_gradients = apply_gradients_over_ranks,
                                         .step = step_over_ranks,
                                         .zero_gradients = zero_gradients_over_ranks,
                                         .scale_learning_rate = scale_learning_rate_over_ranks,
                                         .pin_rows = pin_rows_over_ranks,
                                         .read_rows = rk_sharded_embeddings_read_rows,
                                         .write_rows = rk_sharded_embeddings_write_rows,
                                         .read_step = rk_sharded_embeddings_read_step,
                                         .write_step = rk_sharded_embeddings_write_step};
