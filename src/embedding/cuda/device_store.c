#include "embedding/cuda/device_store.h"

#include "base/memory.h"

typedef struct local_device_store {
    rk_device_store store;
    rk_device_tables *tables;
} local_device_store;

static rk_device_tables *tables_of_store(rk_device_store *store) {
    return ((local_device_store *)store)->tables;
}

static rk_status local_dedup(rk_device_store *store, rk_stream *upload, rk_stream *stream, int64_t n,
                             const rk_ids *ids, bool training) {
    return rk_device_tables_dedup(tables_of_store(store), upload, stream, n, NULL, ids, training);
}

static rk_status local_check_ids(rk_device_store *store) {
    return rk_device_tables_check_ids(tables_of_store(store));
}

static rk_status local_fetch(rk_device_store *store, rk_stream *stream) {
    return rk_device_tables_prepare_batch(tables_of_store(store), stream);
}

static rk_status local_lookup(rk_device_store *store, rk_stream *stream, const rk_activation *activations) {
    return rk_device_tables_lookup(tables_of_store(store), stream, activations);
}

static rk_status local_flag_not_finite(rk_device_store *store, rk_stream *stream,
                                       const rk_activation *gradients, uint32_t *stop) {
    return rk_device_tables_flag_not_finite(tables_of_store(store), stream, gradients, stop);
}

static rk_status local_check_gradients_finite(rk_device_store *store) {
    return rk_device_tables_check_gradients_finite(tables_of_store(store));
}

/* A lookup or a sum where there is nothing to do. */
static rk_status none_use_activations(rk_device_store *store, rk_stream *stream,
                                      const rk_activation *activations) {
    (void)store, (void)stream, (void)activations;
    return RK_OK;
}

static rk_status local_apply(rk_device_store *store, rk_stream *stream, const rk_activation *gradients,
                             const uint32_t *stop) {
    return rk_device_tables_apply_gradients(tables_of_store(store), stream, gradients, stop);
}

static void local_end_batch(rk_device_store *store, bool applied) {
    rk_device_tables_end_batch(tables_of_store(store), applied);
}

static rk_status local_flush(rk_device_store *store) {
    return rk_device_tables_flush(tables_of_store(store));
}

static rk_status local_reload(rk_device_store *store) {
    return rk_device_tables_reload(tables_of_store(store));
}

static void free_local(rk_device_store *store) {
    rk_device_tables_free(tables_of_store(store));
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
                                            .sum = none_use_activations,
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

static void none_free(rk_device_store *store) {
    (void)store;
}

static rk_status none_dedup(rk_device_store *store, rk_stream *upload, rk_stream *stream, int64_t n,
                            const rk_ids *ids, bool training) {
    (void)store, (void)upload, (void)stream, (void)n, (void)ids, (void)training;
    return RK_OK;
}

static rk_status none_succeed(rk_device_store *store) {
    (void)store;
    return RK_OK;
}

static rk_status none_fetch(rk_device_store *store, rk_stream *stream) {
    (void)store, (void)stream;
    return RK_OK;
}

static rk_status none_apply(rk_device_store *store, rk_stream *stream, const rk_activation *gradients,
                            const uint32_t *stop) {
    (void)store, (void)stream, (void)gradients, (void)stop;
    return RK_OK;
}

static rk_status none_flag_not_finite(rk_device_store *store, rk_stream *stream,
                                      const rk_activation *gradients, uint32_t *stop) {
    (void)store, (void)stream, (void)gradients, (void)stop;
    return RK_OK;
}

static void none_end_batch(rk_device_store *store, bool applied) {
    (void)store, (void)applied;
}

rk_device_store *rk_device_store_none(void) {
    static const rk_device_store_ops ops = {.free = none_free,
                                            .dedup = none_dedup,
                                            .check_ids = none_succeed,
                                            .fetch = none_fetch,
                                            .lookup = none_use_activations,
                                            .flag_not_finite = none_flag_not_finite,
                                            .check_gradients_finite = none_succeed,
                                            .sum = none_use_activations,
                                            .apply = none_apply,
                                            .end_batch = none_end_batch,
                                            .flush = none_succeed,
                                            .reload = none_succeed};
    static rk_device_store none = {&ops};
    return &none;
}
