#include "embedding/sharded/sharded_store.h"

#include "base/memory.h"
#include "base/thread/trace.h"
#include "embedding/sharded/sharded_internal.h"

typedef struct sharded_store {
    rk_store store;
    rk_sharded *sharded;
    bool has_servers;
} sharded_store;

static rk_sharded *of(const rk_store *store) {
    return ((const sharded_store *)store)->sharded;
}

static rk_status begin(rk_store *store, int64_t n, const rk_ids *ids, bool training) {
    return rk_sharded_begin(of(store), n, ids, training);
}

static rk_status wait(rk_store *store) {
    uint64_t began = rk_trace_begin();
    rk_status status = rk_sharded_await(of(store));
    rk_trace_end(began, "wait for rows");
    return status;
}

/* What came is packed already. */
static void lookup_early(rk_store *store, rk_activation *activations) {
    for (int32_t f = 0; f < of(store)->trainer_tables->n_features; f++) activations[f].data = NULL;
}

static void lookup(const rk_store *store, bool training, int32_t feature, int64_t first, int64_t last,
                   const rk_activation *to) {
    (void)training;
    rk_sharded_look_up(of(store), feature, first, last, to);
}

static rk_status backward(rk_store *store, const rk_activation *gradients, bool known_finite) {
    (void)known_finite;
    uint64_t began = rk_trace_begin();
    rk_status status = rk_sharded_give(of(store), gradients);
    rk_trace_end(began, "send gradients");
    return status;
}

static rk_status end(rk_store *store, bool applies) {
    uint64_t began = rk_trace_begin();
    rk_status status = rk_sharded_finish(of(store), applies);
    rk_trace_end(began, "wait for updates of rows");
    return status;
}

static rk_status flush(rk_store *store) {
    return rk_sharded_flush(of(store));
}

static void reload(rk_store *store) {
    rk_sharded_forget(of(store));
}

static rk_status state(rk_store *store, rk_state *out) {
    return rk_sharded_state(of(store), out);
}

static rk_status read_stale(rk_store *store, const char *name, int64_t n, int64_t record_bytes,
                            const void *records) {
    return rk_sharded_read_stale(of(store), name, n, record_bytes, records);
}

static void scale_learning_rate(rk_store *store, double factor) {
    (void)rk_sharded_scale_learning_rate(of(store), factor); /* as the local store */
}

static uint64_t bytes(const rk_store *store) {
    return rk_sharded_bytes(of(store));
}

static rk_store_counts count(const rk_store *store) {
    rk_sharded_counts counts = rk_sharded_count(of(store));
    return (rk_store_counts){counts.wait_s, counts.staleness_sum};
}

static rk_status send_control(rk_store *store, int64_t word) {
    return ((sharded_store *)store)->has_servers ? rk_sharded_send_control(of(store), word) : RK_OK;
}

static rk_status serve(rk_store *store, int64_t *word) {
    return rk_sharded_serve(of(store), word);
}

static void free_store(rk_store *store) {
    rk_sharded_free(of(store));
    rk_free(store);
}

static const rk_store_ops sharded_ops = {.free = free_store,
                                         .begin = begin,
                                         .wait = wait,
                                         .lookup_early = lookup_early,
                                         .lookup = lookup,
                                         .n_pieces = rk_store_no_pieces,
                                         .update_piece = rk_store_no_piece,
                                         .complete = rk_store_no_call,
                                         .backward = backward,
                                         .end = end,
                                         .flush = flush,
                                         .reload = reload,
                                         .state = state,
                                         .read_stale = read_stale,
                                         .scale_learning_rate = scale_learning_rate,
                                         .bytes = bytes,
                                         .count = count,
                                         .send_control = send_control,
                                         .serve = serve};

rk_status rk_sharded_store_create(rk_sharded *sharded, bool has_servers, rk_store **out) {
    sharded_store *s;
    rk_status status = rk_alloc(1, sizeof *s, &s);
    if (status != RK_OK) {
        rk_sharded_free(sharded);
        return status;
    }
    *s = (sharded_store){{&sharded_ops}, sharded, has_servers};
    *out = &s->store;
    return RK_OK;
}
