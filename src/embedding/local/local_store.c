#include "embedding/local/local_store.h"

#include "base/memory.h"
#include "base/thread/trace.h"
#include "embedding/local/local_lookup.h"
#include "embedding/local/state/row_before_images.h"

typedef struct local_store {
    rk_store store;
    rk_embeddings *embeddings;
    rk_row_before_images
        before_images; /* where updates are late: what the next batch sees of rows that were flushed */
    bool late;
    const rk_activation *gradients; /* of the batch at hand; NULL: none, or it is not trained on */
    bool known_finite;
} local_store;

static rk_status local_begin(rk_store *store, int64_t n, const rk_ids *ids, bool training) {
    local_store *s = (local_store *)store;
    bool gives_rows = training && s->late;
    s->gradients = NULL;
    if (gives_rows) rk_row_before_images_swap_shared_in(&s->before_images);
    rk_status status = rk_embeddings_dedup(s->embeddings, n, ids, training);
    if (gives_rows) rk_row_before_images_swap_shared_out(&s->before_images);
    return status;
}

static void local_prefetch(rk_store *store, int64_t first, int64_t n, const rk_ids *ids) {
    rk_embeddings_prefetch(((local_store *)store)->embeddings, first, n, ids);
}

static void local_set_timestamp(rk_store *store, int64_t timestamp) {
    rk_embeddings_set_batch_timestamp(((local_store *)store)->embeddings, timestamp);
}

static void local_lookup_early(rk_store *store, rk_activation *activations) {
    local_store *s = (local_store *)store;
    if (!s->late) {
        rk_embeddings_lookup_early(s->embeddings, activations);
        return;
    }
    rk_row_before_images_swap_in(&s->before_images);
    rk_embeddings_lookup_all(s->embeddings, true, activations);
    rk_row_before_images_swap_out(&s->before_images);
}

static void local_lookup(const rk_store *store, bool training, int32_t feature, int64_t first, int64_t last,
                         const rk_activation *to) {
    rk_embeddings_lookup_samples(((const local_store *)store)->embeddings, training, feature, first, last,
                                 to);
}

static size_t local_n_pieces(const rk_store *store) {
    return rk_embeddings_n_update_pieces(((const local_store *)store)->embeddings);
}

static void local_update_piece(rk_store *store, size_t piece) {
    rk_embeddings_update_piece(((local_store *)store)->embeddings, piece);
}

static void local_complete(rk_store *store) {
    rk_embeddings_end_update(((local_store *)store)->embeddings);
}

static rk_status local_backward(rk_store *store, const rk_activation *gradients, bool known_finite) {
    local_store *s = (local_store *)store;
    s->gradients = gradients;
    s->known_finite = known_finite;
    return RK_OK;
}

static rk_status local_end(rk_store *store, bool applies) {
    local_store *s = (local_store *)store;
    const rk_activation *gradients = s->gradients;
    s->gradients = NULL;
    if (!applies || !gradients) return RK_OK;
    uint64_t began = rk_trace_begin();
    rk_status status = rk_embeddings_begin_update(s->embeddings, gradients, s->known_finite);
    if (status == RK_OK && !s->late) rk_embeddings_update_all(s->embeddings);
    rk_trace_end(began, "update rows");
    return status;
}

static rk_status local_flush(rk_store *store) {
    local_store *s = (local_store *)store;
    RK_TRY(rk_row_before_images_capture(&s->before_images, s->before_images.n_looked_up - 1));
    rk_embeddings_update_all(s->embeddings);
    return RK_OK;
}

static rk_status local_reload(rk_store *store) {
    local_store *s = (local_store *)store;
    rk_row_before_images_clear(&s->before_images);
    return rk_embeddings_finish_loading(s->embeddings);
}

static rk_status local_load_keys(rk_store *store, const rk_stored_keys *keys) {
    local_store *s = (local_store *)store;
    if (!keys) rk_row_before_images_clear(&s->before_images); /* of rows that no key has now */
    return rk_embeddings_load_keys(s->embeddings, keys);
}

static rk_store_counts local_count(const rk_store *store) {
    return (rk_store_counts){.keys = rk_embeddings_sum_key_counts(((const local_store *)store)->embeddings)};
}

static rk_status local_state(rk_store *store, rk_state_dict *out) {
    local_store *s = (local_store *)store;
    RK_TRY(rk_embeddings_state_dict(s->embeddings, out));
    for (int32_t t = 0; s->late && t < rk_embeddings_n_tables(s->embeddings); t++)
        RK_TRY(rk_row_before_images_state_dict(&s->before_images, t, out));
    return RK_OK;
}

static rk_status local_read_before_images(rk_store *store, const char *name, int64_t n, int64_t record_bytes,
                                          const void *records) {
    return rk_row_before_images_read(&((local_store *)store)->before_images, name, n, record_bytes, records);
}

static bool local_has_row_files(const rk_store *store) {
    return rk_embeddings_have_row_files(((const local_store *)store)->embeddings);
}

static rk_status local_save_rows(rk_store *store, const char *directory) {
    return rk_embeddings_save_rows(((local_store *)store)->embeddings, directory);
}

static rk_status local_load_rows(rk_store *store, const char *directory) {
    return rk_embeddings_load_rows(((local_store *)store)->embeddings, directory);
}

static void local_find_keys(const rk_store *store, const char *table, const int64_t *keys, int64_t n,
                            bool *has_row) {
    rk_embeddings_find_keys(((const local_store *)store)->embeddings, table, keys, n, has_row);
}

static void local_scale_learning_rate(rk_store *store, double factor) {
    /* Fails for a factor that is no positive number only, which no schedule yields. */
    (void)rk_embeddings_scale_learning_rate(((local_store *)store)->embeddings, factor);
}

static uint64_t local_bytes(const rk_store *store) {
    return rk_embeddings_bytes(((const local_store *)store)->embeddings);
}

static rk_status local_serve(rk_store *store, int64_t *word) {
    (void)store, (void)word;
    return rk_error(RK_INVALID_ARGUMENT, "a model in one process has no embedding servers");
}

static void free_store(rk_store *store) {
    local_store *s = (local_store *)store;
    rk_row_before_images_release(&s->before_images);
    rk_embeddings_free(s->embeddings);
    rk_free(s);
}

static const rk_store_ops local_ops = {.free = free_store,
                                       .begin = local_begin,
                                       .wait = rk_store_noop,
                                       .prefetch = local_prefetch,
                                       .set_timestamp = local_set_timestamp,
                                       .set_cancel_flag = rk_store_noop_set_cancel_flag,
                                       .lookup_early = local_lookup_early,
                                       .lookup = local_lookup,
                                       .n_pieces = local_n_pieces,
                                       .update_piece = local_update_piece,
                                       .complete = local_complete,
                                       .backward = local_backward,
                                       .end = local_end,
                                       .flush = local_flush,
                                       .reload = local_reload,
                                       .load_keys = local_load_keys,
                                       .number_keys = rk_store_noop,
                                       .state = local_state,
                                       .read_before_images = local_read_before_images,
                                       .has_row_files = local_has_row_files,
                                       .save_rows = local_save_rows,
                                       .load_rows = local_load_rows,
                                       .find_keys = local_find_keys,
                                       .scale_learning_rate = local_scale_learning_rate,
                                       .bytes = local_bytes,
                                       .count = local_count,
                                       .send_to_servers = rk_store_noop_send_to_servers,
                                       .serve = local_serve,
                                       .find_not_finite = true};

rk_status rk_local_store_create(rk_embeddings *embeddings, int64_t n_unseen, rk_store **out) {
    local_store *s;
    rk_status status = rk_alloc(1, sizeof *s, &s);
    if (status != RK_OK) {
        rk_embeddings_free(embeddings);
        return status;
    }
    *s = (local_store){.store = {&local_ops}, .embeddings = embeddings, .late = n_unseen > 0};
    if (n_unseen) s->before_images = (rk_row_before_images){.embeddings = embeddings, .staleness = n_unseen};
    *out = &s->store;
    return RK_OK;
}

typedef struct eval_store {
    rk_store store;
    const rk_embeddings *embeddings;
    void *lookup; /* a local lookup */
} eval_store;

static rk_status eval_begin(rk_store *store, int64_t n, const rk_ids *ids, bool training) {
    RK_FAIL_IF(training, RK_INVALID_ARGUMENT, "these rows are only read");
    const eval_store *s = (const eval_store *)store;
    return rk_local_lookup_set_ids(s->embeddings, s->lookup, n, ids);
}

static void eval_lookup(const rk_store *store, bool training, int32_t feature, int64_t first, int64_t last,
                        const rk_activation *to) {
    (void)training;
    const eval_store *s = (const eval_store *)store;
    rk_local_lookup_read_feature(s->embeddings, s->lookup, feature, first, last, to);
}

static rk_status eval_end(rk_store *store, bool applies) {
    (void)store, (void)applies;
    return RK_OK;
}

static void free_eval_store(rk_store *store) {
    const eval_store *s = (const eval_store *)store;
    rk_local_lookup_free(s->embeddings, s->lookup);
    rk_free(store);
}

static const rk_store_ops eval_ops = {.free = free_eval_store,
                                      .begin = eval_begin,
                                      .wait = rk_store_noop,
                                      .set_cancel_flag = rk_store_noop_set_cancel_flag,
                                      .lookup = eval_lookup,
                                      .end = eval_end,
                                      .flush = rk_store_noop};

rk_status rk_eval_store_create(const rk_embeddings *embeddings, rk_store **out) {
    eval_store *s;
    RK_TRY(rk_alloc(1, sizeof *s, &s));
    *s = (eval_store){.store = {&eval_ops}, .embeddings = embeddings};
    rk_status status = rk_local_lookup_create(embeddings, &s->lookup);
    if (status == RK_OK)
        *out = &s->store;
    else
        rk_free(s);
    return status;
}
