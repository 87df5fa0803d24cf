#include "embedding/store.h"

#include "base/error.h"

rk_status rk_store_noop(rk_store *store) {
    (void)store;
    return RK_OK;
}

void rk_store_noop_void(rk_store *store) {
    (void)store;
}

void rk_store_noop_prefetch(rk_store *store, int64_t first, int64_t n, const rk_ids *ids) {
    (void)store, (void)first, (void)n, (void)ids;
}

void rk_store_noop_set_timestamp(rk_store *store, int64_t timestamp) {
    (void)store, (void)timestamp;
}

void rk_store_noop_set_cancel_flag(rk_store *store, const atomic_bool *cancel) {
    (void)store, (void)cancel;
}

static rk_status none_begin(rk_store *store, int64_t n, const rk_ids *ids, bool training) {
    (void)store, (void)n, (void)ids, (void)training;
    return RK_OK;
}

static void none_lookup_early(rk_store *store, rk_activation *activations) {
    (void)store, (void)activations;
}

static void none_lookup(const rk_store *store, bool training, int32_t feature, int64_t first, int64_t last,
                        const rk_activation *to) {
    (void)store, (void)training, (void)feature, (void)first, (void)last, (void)to;
}

size_t rk_store_zero_pieces(const rk_store *store) {
    (void)store;
    return 0;
}

void rk_store_noop_update_piece(rk_store *store, size_t piece) {
    (void)store, (void)piece;
}

static rk_status none_backward(rk_store *store, const rk_activation *gradients, bool known_finite) {
    (void)store, (void)gradients, (void)known_finite;
    return RK_OK;
}

static rk_status none_end(rk_store *store, bool applies) {
    (void)store, (void)applies;
    return RK_OK;
}

static rk_status none_state(rk_store *store, rk_state_dict *out) {
    (void)store, (void)out;
    return RK_OK;
}

static rk_status none_read_before_images(rk_store *store, const char *name, int64_t n, int64_t record_bytes,
                                         const void *records) {
    (void)store, (void)n, (void)record_bytes, (void)records;
    return rk_error(RK_BAD_DATA, "'%s' belongs to a model with tables, but this model has none", name);
}

static bool none_has_row_files(const rk_store *store) {
    (void)store;
    return false;
}

static rk_status none_save_or_load_rows(rk_store *store, const char *directory) {
    (void)store, (void)directory;
    return RK_OK;
}

static void none_find_keys(const rk_store *store, const char *table, const int64_t *keys, int64_t n,
                           bool *has_row) {
    (void)store, (void)table, (void)keys, (void)n, (void)has_row;
}

rk_status rk_store_noop_load_keys(rk_store *store, const rk_stored_keys *keys) {
    (void)store, (void)keys;
    return RK_OK;
}

static void none_scale_learning_rate(rk_store *store, double factor) {
    (void)store, (void)factor;
}

static uint64_t none_bytes(const rk_store *store) {
    (void)store;
    return 0;
}

rk_store_counts rk_store_zero_counts(const rk_store *store) {
    (void)store;
    return (rk_store_counts){0};
}

rk_status rk_store_noop_send_to_servers(rk_store *store, int64_t word) {
    (void)store, (void)word;
    return RK_OK;
}

static rk_status none_serve(rk_store *store, int64_t *word) {
    (void)store, (void)word;
    return rk_error(RK_INVALID_ARGUMENT,
                    "the model has no tables, so embedding servers have nothing to do\nhint: remove "
                    "cluster.embedding_ranks");
}

rk_store *rk_store_none(void) {
    static const rk_store_ops ops = {.free = rk_store_noop_void,
                                     .begin = none_begin,
                                     .wait = rk_store_noop,
                                     .prefetch = rk_store_noop_prefetch,
                                     .set_timestamp = rk_store_noop_set_timestamp,
                                     .set_cancel_flag = rk_store_noop_set_cancel_flag,
                                     .lookup_early = none_lookup_early,
                                     .lookup = none_lookup,
                                     .n_pieces = rk_store_zero_pieces,
                                     .update_piece = rk_store_noop_update_piece,
                                     .complete = rk_store_noop_void,
                                     .backward = none_backward,
                                     .end = none_end,
                                     .flush = rk_store_noop,
                                     .reload = rk_store_noop,
                                     .load_keys = rk_store_noop_load_keys,
                                     .number_keys = rk_store_noop,
                                     .state = none_state,
                                     .read_before_images = none_read_before_images,
                                     .has_row_files = none_has_row_files,
                                     .save_rows = none_save_or_load_rows,
                                     .load_rows = none_save_or_load_rows,
                                     .find_keys = none_find_keys,
                                     .scale_learning_rate = none_scale_learning_rate,
                                     .bytes = none_bytes,
                                     .count = rk_store_zero_counts,
                                     .send_to_servers = rk_store_noop_send_to_servers,
                                     .serve = none_serve};
    static rk_store none = {&ops};
    return &none;
}
