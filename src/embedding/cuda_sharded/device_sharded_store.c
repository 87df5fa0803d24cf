#include "base/memory.h"
#include "embedding/cuda_sharded/device_sharded.h"

typedef struct sharded_store {
    rk_device_store store;
    rk_device_sharded *sharded;
} sharded_store;

static rk_device_sharded *of(rk_device_store *store) {
    return ((sharded_store *)store)->sharded;
}

static rk_status dedup(rk_device_store *store, rk_stream *upload, rk_stream *stream, int64_t n,
                       const rk_ids *ids, bool training) {
    return rk_device_sharded_dedup(of(store), upload, stream, n, ids, training);
}

static rk_status check(rk_device_store *store) {
    return rk_device_sharded_check(of(store));
}

static rk_status fetch(rk_device_store *store, rk_stream *stream) {
    return rk_device_sharded_fetch(of(store), stream);
}

static rk_status apply(rk_device_store *store, rk_stream *stream, const rk_activation *gradients,
                       const uint32_t *stop) {
    return rk_device_sharded_apply(of(store), stream, gradients, stop);
}

static void done(rk_device_store *store, bool applied) {
    rk_device_sharded_done(of(store), applied);
}

static rk_status flush(rk_device_store *store) {
    return rk_device_sharded_flush(of(store));
}

static rk_status reload(rk_device_store *store) {
    return rk_device_sharded_reload(of(store));
}

static void free_store(rk_device_store *store) {
    rk_device_sharded_free(of(store));
    rk_free(store);
}

rk_status rk_device_store_sharded(rk_device_sharded *sharded, rk_device_store **out) {
    static const rk_device_store_ops ops = {.free = free_store,
                                            .dedup = dedup,
                                            .check = check,
                                            .fetch = fetch,
                                            .apply = apply,
                                            .done = done,
                                            .flush = flush,
                                            .reload = reload};
    sharded_store *s;
    rk_status status = rk_alloc(1, sizeof *s, &s);
    if (status != RK_OK) {
        rk_device_sharded_free(sharded);
        return status;
    }
    *s = (sharded_store){{&ops, rk_device_sharded_front(sharded)}, sharded};
    *out = &s->store;
    return RK_OK;
}
