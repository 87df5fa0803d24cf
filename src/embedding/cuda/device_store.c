#include "embedding/cuda/device_store.h"

#include "base/memory.h"

typedef struct local_device_store {
    rk_device_store store;
    rk_device_tables *tables;
} local_device_store;

static rk_device_tables *tables_of(rk_device_store *store) {
    return ((local_device_store *)store)->tables;
}

static rk_status local_dedup(rk_device_store *store, rk_stream *upload, rk_stream *stream, int64_t n,
                             const rk_ids *ids, bool training) {
    return rk_device_tables_dedup(tables_of(store), upload, stream, n, NULL, ids, training);
}

static rk_status local_check_ids(rk_device_store *store) {
    return rk_device_tables_check_ids(tables_of(store));
}

static rk_status local_fetch(rk_device_store *store, rk_stream *stream) {
    return rk_device_tables_prepare(tables_of(store), stream);
}

static rk_status local_lookup(rk_device_store *store, rk_stream *stream, const rk_activation *activations) {
    return rk_device_tables_lookup(tables_of(store), stream, activations);
}

static rk_status local_flag_not_finite(rk_device_store *store, rk_stream *stream,
                                       const rk_activation *gradients, uint32_t *stop) {
    return rk_device_tables_flag_not_finite(tables_of(store), stream, gradients, stop);
}

static rk_status local_check_gradients_finite(rk_device_store *store) {
    return rk_device_tables_check_gradients_finite(tables_of(store));
}

/* A lookup or a sum where there is nothing to do. */
static rk_status no_activations(rk_device_store *store, rk_stream *stream, const rk_activation *activations) {
    (void)store, (void)stream, (void)activations;
    return RK_OK;
}

static rk_status local_apply(rk_device_store *store, rk_stream *stream, const rk_activation *gradients,
                             const uint32_t *stop) {
    return rk_device_tables_apply(tables_of(store), stream, gradients, stop);
}

static void local_end_batch(rk_device_store *store, bool applied) {
    rk_device_tables_end_batch(tables_of(store), applied);
}

static rk_status local_flush(rk_device_store *store) {
    return rk_device_tables_flush(tables_of(store));
}

static rk_status local_reload(rk_device_store *store) {
    return rk_device_tables_reload(tables_of(store));
}

static void free_local(rk_device_store *store) {
    rk_device_tables_free(tables_of(store));
    rk_free(store);
}

rk_status rk_device_store_local(rk_device_tables *tables, rk_device_store **out) {
    static const rk_device_store_ops ops = {.free = free_local,
                                            .dedup = local_dedup,
                                            .check_ids = local_check_ids,
                                            .fetch = local_fetch,
                                            .lookup = local_lookup,
                                            .flag_not_finite = local_flag_not_finite,
                                            .check_gradients_finite = local_check_gradients_finite,
                                            .sum = no_activations,
                                            .apply = local_apply,
                                            .end_batch = local_end_batch,
                                            .flush = local_flush,
                                            .reload = local_reload};
    local_device_store *store;
    rk_status status = rk_alloc(1, sizeof *store, &store);
    if (status != RK_OK) {
        rk_device_tables_free(tables);
        return status;
    }
    *store = (local_device_store){{&ops}, tables};
    *out = &store->store;
    return RK_OK;
}

static void no_free(rk_device_store *store) {
    (void)store;
}

static rk_status no_dedup(rk_device_store *store, rk_stream *upload, rk_stream *stream, int64_t n,
                          const rk_ids *ids, bool training) {
    (void)store, (void)upload, (void)stream, (void)n, (void)ids, (void)training;
    return RK_OK;
}

static rk_status do_nothing(rk_device_store *store) {
    (void)store;
    return RK_OK;
}

static rk_status no_fetch(rk_device_store *store, rk_stream *stream) {
    (void)store, (void)stream;
    return RK_OK;
}

static rk_status no_apply(rk_device_store *store, rk_stream *stream, const rk_activation *gradients,
                          const uint32_t *stop) {
    (void)store, (void)stream, (void)gradients, (void)stop;
    return RK_OK;
}

static rk_status no_flag(rk_device_store *store, rk_stream *stream, const rk_activation *gradients,
                         uint32_t *stop) {
    (void)store, (void)stream, (void)gradients, (void)stop;
    return RK_OK;
}

static void no_end_batch(rk_device_store *store, bool applied) {
    (void)store, (void)applied;
}

rk_device_store *rk_device_store_none(void) {
    static const rk_device_store_ops ops = {.free = no_free,
                                            .dedup = no_dedup,
                                            .check_ids = do_nothing,
                                            .fetch = no_fetch,
                                            .lookup = no_activations,
                                            .flag_not_finite = no_flag,
                                            .check_gradients_finite = do_nothing,
                                            .sum = no_activations,
                                            .apply = no_apply,
                                            .end_batch = no_end_batch,
                                            .flush = do_nothing,
                                            .reload = do_nothing};
    static rk_device_store none = {&ops};
    return &none;
}
