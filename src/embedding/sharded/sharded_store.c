#include "embedding/sharded/sharded_store.h"

#include <string.h>

#include "base/memory.h"
#include "base/thread/trace.h"
#include "embedding/sharded/sharded_internal.h"
#include "kernels/kernels.h"

static rk_sharded *to_sharded(const rk_store *store) {
    return (rk_sharded *)(size_t)store;
}

rk_store *rk_sharded_as_store(rk_sharded *s) {
    return &s->as_store;
}

static rk_status begin_batch_of_kind(rk_sharded *s, int64_t n, const rk_ids *ids, int64_t kind,
                                     int64_t word) {
    rk_in_flight_batch *j = rk_sharded_batch_at(s, s->begun);
    RK_TRY(rk_sharded_wait_for_batch_state(s, j, RK_IN_FLIGHT_FREE));
    j->kind = kind;
    j->word = word;
    j->is_read = false;
    RK_TRY(rk_in_flight_batch_input_dist(s, j, n, ids));
    rk_sharded_enqueue_batch(s, j);
    return RK_OK;
}

static void sharded_prefetch(rk_store *store, int64_t first, int64_t n, const rk_ids *ids) {
    rk_sharded *s = to_sharded(store);
    s->next.first = first, s->next.n = n, s->next.ids = ids;
}

static void sharded_set_timestamp(rk_store *store, int64_t timestamp) {
    to_sharded(store)->timestamp = timestamp;
}

static rk_status sharded_begin(rk_store *store, int64_t n, const rk_ids *ids, bool training) {
    rk_sharded *s = to_sharded(store);
    RK_FAIL_IF(s->begun - s->finished > s->staleness, RK_INVALID_ARGUMENT,
               "%lld batches are in flight; staleness %lld allows no more",
               (long long)(s->begun - s->finished), (long long)s->staleness);
    rk_status status = training ? begin_batch_of_kind(s, n, ids, RK_IN_FLIGHT_TRAIN, s->timestamp)
                                : begin_batch_of_kind(s, n, ids, RK_IN_FLIGHT_EVAL, 0);
    s->next.ids = NULL;
    return status;
}

static rk_status sharded_wait(rk_store *store) {
    rk_sharded *s = to_sharded(store);
    RK_FAIL_IF(s->begun == s->finished, RK_INVALID_ARGUMENT, "no batch is in flight");
    uint64_t began = rk_trace_begin();
    rk_in_flight_batch *j = rk_sharded_batch_at(s, s->finished);
    rk_status status = rk_sharded_wait_for_batch_state(s, j, RK_IN_FLIGHT_READY);
    rk_trace_end(began, "wait for rows");
    if (status != RK_OK || j->kind == RK_IN_FLIGHT_CONTROL) return status;
    s->keys = j->keys;
    return rk_in_flight_batch_share_rows(s, j);
}

/* What came is packed already. */
static void sharded_lookup_early(rk_store *store, rk_activation *activations) {
    for (int32_t f = 0; f < to_sharded(store)->trainer_tables->n_features; f++) activations[f].data = NULL;
}

void rk_in_flight_batch_lookup(const rk_sharded *s, const rk_in_flight_batch *j, int32_t f, int64_t first,
                               int64_t last, const rk_activation *to) {
    const rk_embeddings *e = s->trainer_tables;
    int32_t t = e->feature_tables[f], dim = e->tables[t].config.dim;
    float *values = j->unique[t].values.data;
    if (e->tables[t].part.unplanned)
        values += j->unique[t].bag_begins[rk_embeddings_feature_number_in_table(e, f)] * dim;
    rk_rows rows = {.data = values, .dtype = RK_F32, .dim = dim};
    (void)rk_feature_bags_lookup(&j->batch_context.uses[f], e->features[f].max_sequence_length, &rows, 0,
                                 first, last, *to);
}

static void sharded_lookup(const rk_store *store, bool training, int32_t f, int64_t first, int64_t last,
                           const rk_activation *to) {
    (void)training;
    const rk_sharded *s = to_sharded(store);
    rk_in_flight_batch_lookup(s, rk_sharded_batch_at(s, s->finished), f, first, last, to);
}

static rk_status sharded_backward(rk_store *store, const rk_activation *gradients, bool known_finite) {
    (void)known_finite;
    rk_sharded *s = to_sharded(store);
    uint64_t began = rk_trace_begin();
    rk_status status = rk_in_flight_batch_send_gradients(s, rk_sharded_batch_at(s, s->finished), gradients);
    rk_trace_end(began, "send gradients");
    return status;
}

static rk_status sharded_flush(rk_store *store) {
    rk_sharded *s = to_sharded(store);
    for (size_t i = 0; i < s->n_in_flight_batches && s->begun == s->finished; i++)
        RK_TRY(rk_sharded_wait_for_batch_state(s, &s->in_flight_batches[i], RK_IN_FLIGHT_FREE));
    return RK_OK;
}

static rk_status end_oldest_batch(rk_store *store, bool applies) {
    rk_sharded *s = to_sharded(store);
    rk_in_flight_batch *j = rk_sharded_batch_at(s, s->finished);
    if (j->kind == RK_IN_FLIGHT_TRAIN) RK_TRY(rk_in_flight_batch_send_step_status(s, j, applies));
    rk_sharded_mark_gradients_sent(s, j);
    s->finished++;
    s->seen.n_batches++;
    return s->staleness ? RK_OK : sharded_flush(store);
}

static rk_status sharded_end(rk_store *store, bool applies) {
    uint64_t began = rk_trace_begin();
    rk_status status = end_oldest_batch(store, applies);
    rk_trace_end(began, "wait for updates of rows");
    return status;
}

static rk_status send_control_to_servers(rk_store *store, int64_t word) {
    rk_sharded *s = to_sharded(store);
    if (!s->roles.n_owners) return RK_OK;
    RK_TRY(sharded_flush(store));
    RK_TRY(begin_batch_of_kind(s, 0, NULL, RK_IN_FLIGHT_CONTROL, word));
    RK_TRY(sharded_wait(store));
    rk_sharded_mark_gradients_sent(s, rk_sharded_batch_at(s, s->finished));
    s->finished++;
    return sharded_flush(store);
}

static rk_status sharded_serve(rk_store *store, int64_t *word) {
    rk_sharded *s = to_sharded(store);
    for (;;) {
        rk_in_flight_batch *j = rk_sharded_batch_at(s, s->begun);
        RK_TRY(rk_sharded_wait_for_batch_state(s, j, RK_IN_FLIGHT_FREE));
        j->is_read = false;
        for (int32_t r = 0; r < s->size; r++) s->messages[r] = (rk_message){0};
        RK_TRY(rk_all_to_all_begin(s->comm, RK_CHANNEL_IDS, s->messages, s->nobody, s->trainers, &j->ids));
        rk_sharded_enqueue_batch(s, j);
        RK_TRY(rk_sharded_wait_until_all_served(s));
        if (j->kind != RK_IN_FLIGHT_CONTROL) continue;
        *word = j->word;
        rk_sharded_mark_gradients_sent(s, j);
        return rk_sharded_wait_for_batch_state(s, j, RK_IN_FLIGHT_FREE);
    }
}

static rk_status sharded_load_keys(rk_store *store, const rk_stored_keys *keys) {
    rk_sharded *s = to_sharded(store);
    if (!keys) rk_row_before_images_clear(&s->before_images); /* of rows that no key has now */
    return rk_embeddings_load_keys(s->store, keys);
}

/* What each rank tells of a part of a table that it has. */
static rk_key_share count_keys_of_part(const rk_sharded *s, const rk_table_shard *shard) {
    const rk_dynamic_table *t = shard->stored < 0 ? NULL : s->store->tables[shard->stored].dynamic;
    return t ? (rk_key_share){.n_keys = t->n_keys,
                              .n_candidates = rk_dynamic_count_candidates(t),
                              .totals = t->totals}
             : (rk_key_share){0};
}

static void add_key_share(rk_key_share *sum, const rk_key_share *part) {
    sum->n_keys += part->n_keys;
    sum->n_candidates += part->n_candidates;
    sum->totals.n_admitted += part->totals.n_admitted;
    sum->totals.n_evicted += part->totals.n_evicted;
    sum->totals.n_refused += part->totals.n_refused;
}

/* Shards of a table stand in the order of its parts. parts [n_shards]: what is known of each. */
static void set_key_shares_of_tables(rk_sharded *s, const rk_key_share *parts) {
    for (int32_t h = 0; h < s->n_shards; h++) {
        const rk_table_shard *shard = &s->shards[h];
        rk_dynamic_table *t = shard->stored < 0 ? NULL : s->store->tables[shard->stored].dynamic;
        rk_key_share before = {0}, all = {0};
        for (int32_t g = h - shard->part; t && g < h - shard->part + shard->n_parts; g++) {
            if (g < h) add_key_share(&before, &parts[g]);
            add_key_share(&all, &parts[g]);
        }
        if (!t) continue;
        t->share = all;
        t->share.keys_before = before.n_keys;
        t->share.candidates_before = before.n_candidates;
    }
}

/* As batches tell it, but before the first one. */
static void sum_key_shares(rk_sharded *s, const rk_key_share *parts) {
    rk_key_share all = {0};
    for (int32_t h = 0; h < s->n_shards; h++) add_key_share(&all, &parts[h]);
    s->keys = (rk_key_counts){.n_tables = s->n_dynamic,
                              .n_rows = all.n_keys,
                              .n_admitted = all.totals.n_admitted,
                              .n_evicted = all.totals.n_evicted,
                              .n_refused = all.totals.n_refused,
                              .n_missing = s->keys.n_missing};
}

static rk_status number_keys_over_ranks(rk_store *store) {
    rk_sharded *s = to_sharded(store);
    RK_AUTOFREE rk_key_share *parts = NULL;
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    size_t n_bytes = (size_t)s->n_shards * sizeof *parts;
    if (!s->n_dynamic) return RK_OK;
    RK_TRY(rk_comm_agree_on_status(s->comm, rk_alloc((size_t)s->n_shards, sizeof *parts, &parts)));
    for (int32_t h = 0; h < s->n_shards; h++) parts[h] = count_keys_of_part(s, &s->shards[h]);
    RK_TRY(rk_comm_all_gather(s->comm, RK_CHANNEL_VALUES, parts, n_bytes, &all_to_all));
    for (int32_t h = 0; h < s->n_shards; h++) {
        const void *theirs;
        if (s->shards[h].owner < 0) continue;
        RK_TRY(rk_all_to_all_get_message(all_to_all, s->shards[h].owner, n_bytes, &theirs));
        memcpy(&parts[h], (const rk_key_share *)theirs + h, sizeof *parts);
    }
    set_key_shares_of_tables(s, parts);
    sum_key_shares(s, parts);
    return RK_OK;
}

static rk_status sharded_state(rk_store *store, rk_state_dict *state) {
    rk_sharded *s = to_sharded(store);
    for (int32_t h = 0; h < s->n_shards; h++) {
        const rk_table_shard *shard = &s->shards[h];
        size_t first = state->n;
        if (shard->stored >= 0) RK_TRY(rk_table_state_dict(&s->store->tables[shard->stored], state));
        if (shard->stored >= 0)
            RK_TRY(rk_row_before_images_state_dict(&s->before_images, shard->stored, state));
        for (size_t i = first; i < state->n; i++) state->entries[i].shared = shard->owner < 0;
    }
    return RK_OK;
}

static rk_status sharded_read_before_images(rk_store *store, const char *name, int64_t n,
                                            int64_t record_bytes, const void *records) {
    return rk_row_before_images_read(&to_sharded(store)->before_images, name, n, record_bytes, records);
}

static bool sharded_has_row_files(const rk_store *store) {
    return to_sharded(store)->has_row_files;
}

static rk_status sharded_save_rows(rk_store *store, const char *directory) {
    return rk_embeddings_save_rows(to_sharded(store)->store, directory);
}

static rk_status sharded_load_rows(rk_store *store, const char *directory) {
    return rk_embeddings_load_rows(to_sharded(store)->store, directory);
}

static void sharded_find_keys(const rk_store *store, const char *table, const int64_t *keys, int64_t n,
                              bool *has_row) {
    rk_embeddings_find_keys(to_sharded(store)->store, table, keys, n, has_row);
}

static rk_status sharded_reload(rk_store *store) {
    rk_row_before_images_clear(&to_sharded(store)->before_images);
    return rk_embeddings_finish_loading(to_sharded(store)->store);
}

rk_status rk_sharded_set_l2(rk_sharded *s, const char *table, double l2, double l2_full) {
    for (int32_t h = 0; h < s->n_shards; h++) {
        const rk_table_shard *shard = &s->shards[h];
        if (shard->stored >= 0 && strcmp(s->names[shard->table], table) == 0)
            RK_TRY(rk_embeddings_set_l2(s->store, s->store->tables[shard->stored].config.name, l2, l2_full));
    }
    return RK_OK;
}

static void sharded_scale_learning_rate(rk_store *store, double factor) {
    (void)rk_embeddings_scale_learning_rate(to_sharded(store)->store, factor); /* as the local store */
}

static uint64_t sharded_bytes(const rk_store *store) {
    return rk_embeddings_bytes(to_sharded(store)->store);
}

rk_sharded_counts rk_sharded_read_counts(const rk_sharded *s) {
    rk_sharded_counts counts = s->seen;
    counts.bytes_served = atomic_load(&s->bytes_served);
    counts.rows_served = atomic_load(&s->rows_served);
    counts.gradients_taken = atomic_load(&s->gradients_taken);
    counts.staleness_sum = atomic_load(&s->staleness_sum);
    counts.staleness_most = atomic_load(&s->staleness_most);
    return counts;
}

static rk_store_counts sharded_count(const rk_store *store) {
    return (rk_store_counts){.wait_s = to_sharded(store)->seen.wait_s,
                             .staleness_sum = atomic_load(&to_sharded(store)->staleness_sum),
                             .keys = to_sharded(store)->keys};
}

const rk_store_ops rk_sharded_ops = {.free = rk_sharded_free,
                                     .begin = sharded_begin,
                                     .wait = sharded_wait,
                                     .prefetch = sharded_prefetch,
                                     .set_timestamp = sharded_set_timestamp,
                                     .set_cancel_flag = rk_store_noop_set_cancel_flag,
                                     .lookup_early = sharded_lookup_early,
                                     .lookup = sharded_lookup,
                                     .n_pieces = rk_store_zero_pieces,
                                     .update_piece = rk_store_noop_update_piece,
                                     .complete = rk_store_noop_void,
                                     .backward = sharded_backward,
                                     .end = sharded_end,
                                     .flush = sharded_flush,
                                     .reload = sharded_reload,
                                     .load_keys = sharded_load_keys,
                                     .number_keys = number_keys_over_ranks,
                                     .state = sharded_state,
                                     .read_before_images = sharded_read_before_images,
                                     .has_row_files = sharded_has_row_files,
                                     .save_rows = sharded_save_rows,
                                     .load_rows = sharded_load_rows,
                                     .find_keys = sharded_find_keys,
                                     .scale_learning_rate = sharded_scale_learning_rate,
                                     .bytes = sharded_bytes,
                                     .count = sharded_count,
                                     .send_to_servers = send_control_to_servers,
                                     .serve = sharded_serve};

void rk_wire_pack(void *to, rk_dtype wire, const float *from, int64_t n) {
    if (wire != RK_F32)
        rk_f32_to_16_bits(from, n, wire == RK_BF16, to);
    else if (n)
        memcpy(to, from, (size_t)n * sizeof *from);
}

void rk_wire_unpack(float *to, rk_dtype wire, const void *from, int64_t n) {
    if (wire != RK_F32)
        rk_f32_from_16_bits(from, n, wire == RK_BF16, to);
    else if (n)
        memcpy(to, from, (size_t)n * sizeof *to);
}
