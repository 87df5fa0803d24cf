#include "embedding/sharded/sharded.h"

#include <string.h>

#include "base/float16.h"
#include "embedding/sharded/sharded_internal.h"

static rk_status begin(rk_sharded *s, int64_t n, const rk_ids *ids, int64_t kind, int64_t word) {
    rk_in_flight_batch *j = rk_in_flight_batch_at(s, s->begun);
    RK_TRY(rk_sharded_until(s, j, RK_IN_FLIGHT_FREE));
    j->kind = kind;
    j->word = word;
    j->is_read = false;
    RK_TRY(rk_in_flight_batch_input_dist(s, j, n, ids));
    rk_sharded_set_off(s, j);
    return RK_OK;
}

rk_status rk_sharded_begin(rk_sharded *s, int64_t n, const rk_ids *ids, bool training) {
    RK_FAIL_IF(s->begun - s->finished > s->staleness, RK_INVALID_ARGUMENT,
               "%lld batches are in flight; staleness %lld allows no more",
               (long long)(s->begun - s->finished), (long long)s->staleness);
    return begin(s, n, ids, training ? RK_IN_FLIGHT_TRAIN : RK_IN_FLIGHT_PEEK, 0);
}

rk_status rk_sharded_await(rk_sharded *s) {
    RK_FAIL_IF(s->begun == s->finished, RK_INVALID_ARGUMENT, "no batch is in flight");
    return rk_sharded_until(s, rk_in_flight_batch_at(s, s->finished), RK_IN_FLIGHT_READY);
}

void rk_sharded_look_up(const rk_sharded *s, int32_t f, int64_t first, int64_t last,
                        const rk_activation *to) {
    const rk_in_flight_batch *j = rk_in_flight_batch_at(s, s->finished);
    const rk_embeddings *e = s->trainer_tables;
    int32_t t = e->feature_tables[f], dim = e->tables[t].config.dim;
    float *values = j->unique[t].values.data;
    if (e->tables[t].part.unplanned) values += j->unique[t].bag_begins[rk_number_in_table(e, f)] * dim;
    rk_rows rows = {.data = values, .dtype = RK_F32, .dim = dim};
    (void)rk_use_look_up(&j->batch_context.uses[f], e->features[f].max_sequence_length, &rows, 0, first, last,
                         *to);
}

rk_status rk_sharded_give(rk_sharded *s, const rk_activation *gradients) {
    return rk_in_flight_batch_give(s, rk_in_flight_batch_at(s, s->finished), gradients);
}

rk_status rk_sharded_finish(rk_sharded *s, bool applies) {
    rk_in_flight_batch *j = rk_in_flight_batch_at(s, s->finished);
    if (j->kind == RK_IN_FLIGHT_TRAIN) RK_TRY(rk_in_flight_batch_decide(s, j, applies));
    rk_sharded_return(s, j);
    s->finished++;
    s->seen.n_batches++;
    return s->staleness ? RK_OK : rk_sharded_flush(s);
}

rk_status rk_sharded_flush(rk_sharded *s) {
    for (size_t i = 0; i < s->n_in_flight_batches && s->begun == s->finished; i++)
        RK_TRY(rk_sharded_until(s, &s->in_flight_batches[i], RK_IN_FLIGHT_FREE));
    return RK_OK;
}

rk_status rk_sharded_send_control(rk_sharded *s, int64_t word) {
    RK_TRY(rk_sharded_flush(s));
    RK_TRY(begin(s, 0, NULL, RK_IN_FLIGHT_CONTROL, word));
    RK_TRY(rk_sharded_await(s));
    rk_sharded_return(s, rk_in_flight_batch_at(s, s->finished));
    s->finished++;
    return rk_sharded_flush(s);
}

rk_status rk_sharded_serve(rk_sharded *s, int64_t *word) {
    for (;;) {
        rk_in_flight_batch *j = rk_in_flight_batch_at(s, s->begun);
        RK_TRY(rk_sharded_until(s, j, RK_IN_FLIGHT_FREE));
        j->is_read = false;
        for (int32_t r = 0; r < s->size; r++) s->messages[r] = (rk_message){0};
        RK_TRY(rk_all_to_all_begin(s->comm, RK_CHANNEL_IDS, s->messages, s->nobody, s->trainers, &j->ids));
        rk_sharded_set_off(s, j);
        RK_TRY(rk_sharded_until_served(s));
        if (j->kind != RK_IN_FLIGHT_CONTROL) continue;
        *word = j->word;
        rk_sharded_return(s, j);
        return rk_sharded_until(s, j, RK_IN_FLIGHT_FREE);
    }
}

rk_status rk_sharded_state(rk_sharded *s, rk_state *state) {
    for (int32_t h = 0; h < s->n_shards; h++) {
        const rk_table_shard *shard = &s->shards[h];
        size_t first = state->n;
        if (shard->stored >= 0) RK_TRY(rk_table_state(&s->store->tables[shard->stored], state));
        if (shard->stored >= 0) RK_TRY(rk_stale_rows_state(&s->stale_rows, shard->stored, state));
        for (size_t i = first; i < state->n; i++) state->entries[i].shared = shard->owner < 0;
    }
    return RK_OK;
}

rk_status rk_sharded_read_stale(rk_sharded *s, const char *name, int64_t n, int64_t record_bytes,
                                const void *records) {
    return rk_stale_rows_read(&s->stale_rows, name, n, record_bytes, records);
}

void rk_sharded_forget(rk_sharded *s) {
    rk_stale_rows_forget(&s->stale_rows);
}

rk_status rk_sharded_set_l2(rk_sharded *s, const char *table, double l2, double l2_full) {
    for (int32_t h = 0; h < s->n_shards; h++) {
        const rk_table_shard *shard = &s->shards[h];
        if (shard->stored >= 0 && strcmp(s->names[shard->table], table) == 0)
            RK_TRY(rk_embeddings_set_l2(s->store, s->store->tables[shard->stored].config.name, l2, l2_full));
    }
    return RK_OK;
}

rk_status rk_sharded_scale_learning_rate(rk_sharded *s, double factor) {
    return s->store ? rk_embeddings_scale_learning_rate(s->store, factor) : RK_OK;
}

uint64_t rk_sharded_bytes(const rk_sharded *s) {
    return s->store ? rk_embeddings_bytes(s->store) : 0;
}

rk_sharded_counts rk_sharded_count(const rk_sharded *s) {
    rk_sharded_counts counts = s->seen;
    counts.bytes_served = atomic_load(&s->bytes_served);
    counts.rows_served = atomic_load(&s->rows_served);
    counts.gradients_taken = atomic_load(&s->gradients_taken);
    counts.staleness_sum = atomic_load(&s->staleness_sum);
    counts.staleness_most = atomic_load(&s->staleness_most);
    return counts;
}

void rk_wire_pack(void *to, rk_dtype wire, const float *from, int64_t n) {
    uint16_t *halves = to;
    if (wire == RK_F32 && n)
        memcpy(to, from, (size_t)n * sizeof *from);
    else if (wire == RK_BF16)
        for (int64_t i = 0; i < n; i++) halves[i] = rk_bf16_from_f32_finite(from[i]);
    else
        for (int64_t i = 0; i < n; i++) halves[i] = rk_f16_from_f32_finite(from[i]);
}

void rk_wire_unpack(float *to, rk_dtype wire, const void *from, int64_t n) {
    const uint16_t *halves = from;
    if (wire == RK_F32 && n)
        memcpy(to, from, (size_t)n * sizeof *to);
    else if (wire == RK_BF16)
        for (int64_t i = 0; i < n; i++) to[i] = rk_bf16_to_f32(halves[i]);
    else
        for (int64_t i = 0; i < n; i++) to[i] = rk_f16_to_f32(halves[i]);
}
