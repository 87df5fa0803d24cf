/* The stores of a GPU behind embedding/store.h, as the engine drives them: whole batches on streams. */
#ifndef RK_TESTS_DEVICE_KINDS_H
#define RK_TESTS_DEVICE_KINDS_H

#include "base/rng.h" /* before `stream` is a name */

#include "cuda/device_testing.h"
#include "embedding/sharded_kind.h"

#include "cuda/dense/dense_optimizer_step.h"
#include "embedding/cuda_sharded/device_sharded_store.h"

typedef struct device_subject {
    rk_store store;
    rk_device_store *rows;
    rk_embeddings *home; /* of one rank */
    rk_sharded *sharded; /* over ranks */
    rk_device_comm *device_comm;
    rk_stream *upload, *dedup;
    rk_activation activations[N_FEATURES]; /* device memory, of lookups and then of gradients */
    uint32_t *stop;
    int64_t n;
} device_subject;

static device_subject *subject_of(const rk_store *store) {
    return (device_subject *)(size_t)store;
}

static void subject_set_timestamp(rk_store *store, int64_t timestamp) {
    const device_subject *d = subject_of(store);
    rk_store *over_ranks = d->sharded ? rk_sharded_as_store(d->sharded) : NULL;
    if (over_ranks)
        over_ranks->ops->set_timestamp(over_ranks, timestamp);
    else
        rk_embeddings_set_batch_timestamp(d->home, timestamp);
}

static rk_status subject_begin(rk_store *store, int64_t n, const rk_ids *ids, bool training) {
    device_subject *d = subject_of(store);
    d->n = n;
    RK_TRY(d->rows->ops->dedup(d->rows, d->upload, d->dedup, n, ids, training));
    rk_status status = d->rows->ops->check_ids(d->rows);
    if (status != RK_OK) d->rows->ops->end_batch(d->rows, false);
    return status;
}

static rk_status subject_wait(rk_store *store) {
    device_subject *d = subject_of(store);
    RK_TRY(d->rows->ops->fetch(d->rows, stream));
    RK_TRY(d->rows->ops->lookup(d->rows, stream, d->activations));
    return rk_stream_sync(stream);
}

static void subject_lookup_early(rk_store *store, rk_activation *activations) {
    (void)store;
    for (int f = 0; f < N_FEATURES; f++) activations[f].data = NULL;
}

static void subject_lookup(const rk_store *store, bool training, int32_t f, int64_t first, int64_t last,
                           const rk_activation *to) {
    const device_subject *d = subject_of(store);
    (void)training;
    assert_int_equal(to->stride, d->activations[f].stride); /* so that one copy brings all */
    OK(rk_device_download(device, to->data, d->activations[f].data + first * to->stride,
                          (size_t)((last - first) * to->stride) * sizeof(float)));
}

static rk_status subject_backward(rk_store *store, const rk_activation *gradients, bool known_finite) {
    device_subject *d = subject_of(store);
    (void)known_finite;
    for (int f = 0; f < N_FEATURES; f++)
        RK_TRY(rk_device_upload(device, d->activations[f].data, gradients[f].data,
                                (size_t)(d->n * gradients[f].stride) * sizeof(float)));
    return RK_OK;
}

/* The update, where the gradients are finite. */
static rk_status subject_apply(device_subject *d) {
    uint32_t stop = 0;
    OK(rk_device_upload(device, d->stop, &stop, sizeof stop));
    RK_TRY(d->rows->ops->flag_not_finite(d->rows, stream, d->activations, d->stop));
    RK_TRY(d->rows->ops->sum(d->rows, stream, d->activations));
    RK_TRY(d->rows->ops->apply(d->rows, stream, d->activations, d->stop));
    RK_TRY(rk_stream_sync(stream));
    OK(rk_device_download(device, &stop, d->stop, sizeof stop));
    return stop ? d->rows->ops->check_gradients_finite(d->rows) : RK_OK;
}

static rk_status subject_end(rk_store *store, bool applies) {
    device_subject *d = subject_of(store);
    rk_status status = applies ? subject_apply(d) : RK_OK;
    d->rows->ops->end_batch(d->rows, applies && status == RK_OK);
    return status;
}

static rk_status subject_flush(rk_store *store) {
    return subject_of(store)->rows->ops->flush(subject_of(store)->rows);
}

static rk_status subject_state(rk_store *store, rk_state_dict *state) {
    device_subject *d = subject_of(store);
    if (!d->sharded) return rk_embeddings_state_dict(d->home, state);
    rk_store *over_ranks = rk_sharded_as_store(d->sharded);
    return over_ranks->ops->state(over_ranks, state);
}

static rk_status subject_number_keys(rk_store *store) {
    device_subject *d = subject_of(store);
    if (!d->sharded) return RK_OK;
    rk_store *over_ranks = rk_sharded_as_store(d->sharded);
    return over_ranks->ops->number_keys(over_ranks);
}

static uint64_t subject_bytes(const rk_store *store) {
    const device_subject *d = subject_of(store);
    if (!d->sharded) return rk_embeddings_bytes(d->home);
    const rk_store *over_ranks = rk_sharded_as_store(d->sharded);
    return over_ranks->ops->bytes(over_ranks);
}

static void subject_free(rk_store *store) {
    device_subject *d = subject_of(store);
    if (d->rows) d->rows->ops->free(d->rows);
    rk_device_comm_free(d->device_comm);
    if (d->sharded) rk_sharded_as_store(d->sharded)->ops->free(rk_sharded_as_store(d->sharded));
    rk_embeddings_free(d->home);
    rk_stream_free(d->upload);
    rk_stream_free(d->dedup);
    for (int f = 0; f < N_FEATURES; f++) rk_device_free(device, d->activations[f].data);
    rk_device_free(device, d->stop);
    rk_free(d);
}

static device_subject *make_subject(void) {
    static const rk_store_ops ops = {.free = subject_free,
                                     .set_timestamp = subject_set_timestamp,
                                     .begin = subject_begin,
                                     .wait = subject_wait,
                                     .lookup_early = subject_lookup_early,
                                     .lookup = subject_lookup,
                                     .n_pieces = rk_store_zero_pieces,
                                     .backward = subject_backward,
                                     .end = subject_end,
                                     .flush = subject_flush,
                                     .number_keys = subject_number_keys,
                                     .state = subject_state,
                                     .bytes = subject_bytes,
                                     .find_not_finite = true};
    static drawn strides;
    device_subject *d;
    OK(rk_alloc(1, sizeof *d, &d));
    d->store.ops = &ops;
    OK(rk_stream_create(device, &d->upload));
    OK(rk_stream_create(device, &d->dedup));
    draw(&strides, 0, 1);
    for (int f = 0; f < N_FEATURES; f++) {
        d->activations[f].stride = strides.activations[f].stride;
        d->activations[f].data = on_device(NULL, (size_t)(N * strides.activations[f].stride) * sizeof(float));
    }
    d->stop = on_device(NULL, sizeof *d->stop);
    return d;
}

static inline rk_status make_device(const store_kind *kind, rk_store **out) {
    device_subject *d = make_subject();
    rk_device_tables *tables;
    d->home = make_plain(kind);
    RK_TRY(rk_device_tables_create(d->home, device, &(rk_device_tables_options){.max_batch = N}, &tables));
    *out = &d->store;
    return rk_device_store_local(tables, &d->rows);
}

static inline rk_status make_device_sharded(const store_kind *kind, rk_store **out) {
    device_subject *d = make_subject();
    RK_TRY(make_sharded_collection(kind, &d->sharded));
    RK_TRY(rk_device_comm_create(comm, device, &d->device_comm));
    *out = &d->store;
    return rk_device_store_sharded(d->sharded, device, d->device_comm,
                                   &(rk_device_tables_options){.max_batch = N}, &d->rows);
}

#endif
