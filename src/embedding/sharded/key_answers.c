/* What ranks tell each other of keys: owners how many have rows, and which keys of a batch have none;
 * trainers which of the rows that such keys share have gradients. It travels with rows and gradients, or,
 * where those go another way, by itself. */
#include <string.h>

#include "base/memory.h"
#include "embedding/sharded/sharded_internal.h"

rk_status rk_in_flight_batch_read_key_counts(const rk_sharded *s, rk_in_flight_batch *j, int32_t owner,
                                             const rk_message *from) {
    rk_key_counts counts;
    RK_FAIL_IF(from->n_bytes < rk_answer_header_bytes(s), RK_INTERNAL,
               "rank %d sent %zu bytes of rows, but at least %zu are needed", owner, from->n_bytes,
               rk_answer_header_bytes(s));
    memcpy(&counts, from->data, sizeof counts);
    j->keys.n_rows += counts.n_rows;
    j->keys.n_admitted += counts.n_admitted;
    j->keys.n_evicted += counts.n_evicted;
    j->keys.n_refused += counts.n_refused;
    j->keys.n_missing += counts.n_missing;
    return RK_OK;
}

size_t rk_in_flight_batch_pack_absent_flags(const rk_sharded *s, const rk_in_flight_batch *j, int32_t f,
                                            char *to) {
    const rk_table_shard_stream *stream = rk_sharded_stream_of_stored_feature(s, f);
    size_t n_bytes = rk_stream_absent_flag_bytes(stream, j->counts[f]);
    if (!n_bytes) return 0;
    const int64_t *rows = j->local[f].data,
                  n_shared = s->store->tables[s->shards[stream->shard].stored].dynamic->n_shared;
    for (int64_t i = 0; i < j->counts[f]; i++) to[i] = rows[i] < n_shared;
    return n_bytes;
}

rk_status rk_in_flight_batch_read_absent_flags(const rk_sharded *s, rk_in_flight_batch *j,
                                               const rk_table_shard_stream *stream, int32_t owner,
                                               const rk_message *from, size_t *at) {
    int64_t n = rk_in_flight_batch_stream_count(s, j, stream);
    size_t n_bytes = rk_stream_absent_flag_bytes(stream, n);
    if (!n_bytes) return RK_OK;
    RK_FAIL_IF(*at + n_bytes > from->n_bytes, RK_INTERNAL,
               "rank %d sent %zu bytes of rows, but at least %zu are needed", owner, from->n_bytes,
               *at + n_bytes);
    rk_unique_rows *w = &j->unique[s->shards[stream->shard].table];
    uint8_t *absent = (uint8_t *)w->absent.data + rk_in_flight_batch_stream_offset(s, j, stream);
    n -= rk_stream_n_shared_rows(s, stream);
    memcpy(absent, (const char *)from->data + *at, (size_t)n);
    for (int64_t i = 0; i < n; i++) w->shares |= absent[i] != 0;
    *at += n_bytes;
    return RK_OK;
}

static void map_absent_keys_to_shared_row(rk_unique_rows *w) {
    const uint8_t *absent = w->absent.data;
    int64_t *order = w->order.data;
    for (int64_t i = 0; i < w->n; i++) order[i] = i != w->shared && absent[i] ? w->shared : i;
}

/* Of keys with the same cold row, the first stands for all. */
static rk_status map_absent_keys_to_cold_rows(const rk_dynamic_config *config, rk_unique_rows *w) {
    const uint8_t *absent = w->absent.data;
    const int64_t *keys = w->rows.data;
    int64_t *order = w->order.data, *cold, n = 0, n_first = 0;
    RK_TRY(rk_scratch_buffer_reserve(&w->cold_rows, (size_t)w->n * sizeof *cold));
    cold = w->cold_rows.data;
    for (int64_t i = 0; i < w->n; i++)
        if (absent[i]) cold[n++] = rk_dynamic_cold_row_of_hash(config, rk_key_hash(keys[i]));
    RK_TRY(rk_unique_keys_find(&w->cold, &(rk_key_uses){.keys = cold, .rows = cold, .n = n}, 1));
    n = 0;
    for (int64_t i = 0; i < w->n; i++) {
        order[i] = i;
        if (!absent[i]) continue;
        int64_t number = cold[n++];
        if (number == n_first) cold[n_first++] = i; /* over numbers that were read */
        order[i] = cold[number];
    }
    return RK_OK;
}

static void remap_targets(rk_unique_rows *w, int64_t n) {
    const int64_t *order = w->order.data;
    int64_t *targets = w->targets.data;
    for (int64_t u = 0; u < n; u++) targets[u] = order[targets[u]];
}

/* A cold row comes with each of its keys: a lookup finds it there. */
rk_status rk_in_flight_batch_map_absent_keys(const rk_sharded *s, rk_in_flight_batch *j) {
    for (int32_t t = 0; t < s->trainer_tables->n_tables; t++) {
        rk_unique_rows *w = &j->unique[t];
        const rk_dynamic_config *config = &s->trainer_tables->tables[t].dynamic_config;
        if (!w->shares || (config->n_cold && j->kind != RK_IN_FLIGHT_TRAIN)) continue;
        if (config->n_cold)
            RK_TRY(map_absent_keys_to_cold_rows(config, w));
        else
            map_absent_keys_to_shared_row(w);
        remap_targets(w, j->batch_context.plans[t].n);
    }
    return RK_OK;
}

size_t rk_in_flight_batch_pack_shared_row_flags(const rk_sharded *s, rk_in_flight_batch *j,
                                                const rk_table_shard_stream *stream, char *to) {
    const rk_table_shard *shard = &s->shards[stream->shard];
    const rk_unique_rows *w = &j->unique[shard->table];
    int64_t n = rk_in_flight_batch_stream_count(s, j, stream), shares = w->shares;
    size_t n_bytes = rk_stream_shared_row_flag_bytes(s, stream, n);
    if (!n_bytes) return 0;
    const int64_t *order = w->order.data, first = w->begins[shard->part];
    if (!stream->cold) memcpy(to, &shares, sizeof shares);
    for (int64_t i = 0; stream->cold && i < n; i++) to[i] = !shares || order[first + i] == first + i;
    return n_bytes;
}

/* Uses of keys without a row have no gradients of their own; the row that they share has one, if some do. Of
 * the keys that share a cold row, one has it. */
rk_status rk_in_flight_batch_drop_gradients_of_absent_keys(const rk_sharded *s, const rk_in_flight_batch *j,
                                                           int32_t f, int32_t trainer, const rk_message *from,
                                                           size_t *at) {
    enum { NO_ROW = -1 };
    const rk_table_shard_stream *stream = rk_sharded_stream_of_stored_feature(s, f);
    int64_t *rows = j->local[f].data, n = j->counts[f] - rk_stream_n_shared_rows(s, stream), shares;
    size_t bytes = rk_stream_shared_row_flag_bytes(s, stream, n);
    for (int64_t i = 0; i < n && stream->oov; i++)
        if (rows[i] == 0) rows[i] = NO_ROW;
    if (!bytes) return RK_OK;
    if (*at + bytes > from->n_bytes) return rk_message_too_short_error(trainer, "gradients", from->n_bytes);
    const char *sent = (const char *)from->data + *at;
    for (int64_t i = 0; i < n && stream->cold; i++)
        if (!sent[i]) rows[i] = NO_ROW;
    *at += bytes;
    if (stream->cold) return RK_OK;
    memcpy(&shares, sent, sizeof shares);
    if (!shares) rows[n] = NO_ROW;
    return RK_OK;
}

static const rk_table_shard_stream *stream_of_owner(const rk_sharded *s, int32_t owner, int32_t i) {
    return &s->streams[s->streams_of[owner][i]];
}

static rk_status pack_answer_of_keys(const rk_sharded *s, rk_in_flight_batch *j, int32_t trainer) {
    rk_key_counts counts = rk_embeddings_sum_key_counts(s->store);
    size_t n_bytes = rk_answer_header_bytes(s);
    for (int32_t i = 0; i < rk_sharded_n_local_streams(s); i++)
        n_bytes += rk_stream_absent_flag_bytes(stream_of_owner(s, s->rank, i),
                                               j->counts[rk_sharded_stored_feature(s, trainer, i)]);
    RK_TRY(rk_scratch_buffer_reserve(&j->answer[trainer], n_bytes));
    char *to = j->answer[trainer].data;
    memcpy(to, &counts, sizeof counts);
    to += rk_answer_header_bytes(s);
    for (int32_t i = 0; i < rk_sharded_n_local_streams(s); i++)
        to += rk_in_flight_batch_pack_absent_flags(s, j, rk_sharded_stored_feature(s, trainer, i), to);
    s->messages[trainer] = (rk_message){j->answer[trainer].data, n_bytes};
    return RK_OK;
}

static rk_status read_answer_of_keys(const rk_sharded *s, rk_in_flight_batch *j, int32_t owner,
                                     const rk_message *from) {
    size_t at = rk_answer_header_bytes(s);
    RK_TRY(rk_in_flight_batch_read_key_counts(s, j, owner, from));
    for (int32_t i = 0; i < s->n_streams_of[owner]; i++)
        RK_TRY(rk_in_flight_batch_read_absent_flags(s, j, stream_of_owner(s, owner, i), owner, from, &at));
    return RK_OK;
}

static rk_status pack_shared_row_flags_of_owner(const rk_sharded *s, rk_in_flight_batch *j, int32_t owner) {
    size_t n_bytes = 0;
    for (int32_t i = 0; i < s->n_streams_of[owner]; i++) {
        const rk_table_shard_stream *stream = stream_of_owner(s, owner, i);
        n_bytes += rk_stream_shared_row_flag_bytes(s, stream, rk_in_flight_batch_stream_count(s, j, stream));
    }
    RK_TRY(rk_scratch_buffer_reserve(&j->give[owner], n_bytes));
    char *to = j->give[owner].data;
    for (int32_t i = 0; i < s->n_streams_of[owner]; i++)
        to += rk_in_flight_batch_pack_shared_row_flags(s, j, stream_of_owner(s, owner, i), to);
    s->messages[owner] = (rk_message){j->give[owner].data, n_bytes};
    return RK_OK;
}

static rk_status read_shared_row_flags(const rk_sharded *s, rk_in_flight_batch *j, int32_t trainer,
                                       const rk_message *from) {
    size_t at = 0;
    for (int32_t i = 0; i < rk_sharded_n_local_streams(s); i++)
        RK_TRY(rk_in_flight_batch_drop_gradients_of_absent_keys(
            s, j, rk_sharded_stored_feature(s, trainer, i), trainer, from, &at));
    return RK_OK;
}

typedef rk_status pack_for_rank(const rk_sharded *s, rk_in_flight_batch *j, int32_t rank);
typedef rk_status read_from_rank(const rk_sharded *s, rk_in_flight_batch *j, int32_t rank,
                                 const rk_message *from);

static rk_status exchange(rk_sharded *s, rk_in_flight_batch *j, pack_for_rank *pack, read_from_rank *read) {
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    for (int32_t r = 0; r < s->size; r++) RK_TRY(pack(s, j, r));
    RK_TRY(rk_all_to_all_begin(s->comm, RK_CHANNEL_IDS, s->messages, NULL, NULL, &all_to_all));
    RK_TRY(rk_all_to_all_wait(all_to_all));
    for (int32_t r = 0; r < s->size; r++)
        RK_TRY(read(s, j, r, &rk_all_to_all_received_messages(all_to_all)[r]));
    return RK_OK;
}

static bool keys_share_rows(const rk_sharded *s) {
    bool any = false;
    for (int32_t i = 0; i < s->n_streams; i++) any |= s->streams[i].oov || s->streams[i].cold;
    return any;
}

rk_status rk_in_flight_batch_exchange_key_answers(rk_sharded *s, rk_in_flight_batch *j) {
    j->keys = (rk_key_counts){.n_tables = s->n_dynamic};
    if (!s->n_dynamic) return RK_OK;
    RK_TRY(exchange(s, j, pack_answer_of_keys, read_answer_of_keys));
    RK_TRY(rk_in_flight_batch_map_absent_keys(s, j));
    if (j->kind != RK_IN_FLIGHT_TRAIN || !keys_share_rows(s)) return RK_OK;
    return exchange(s, j, pack_shared_row_flags_of_owner, read_shared_row_flags);
}
