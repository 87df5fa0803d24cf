/* Keys of the batch to come, of tables with rows on a disk: a trainer sends them behind the ids of the batch
 * before it, and their owner reads the rows beside that batch. */
#include <string.h>

#include "base/thread/parallel_failure.h"
#include "base/thread/parallel.h"
#include "embedding/sharded/sharded_internal.h"

/* Keys of a part in a message: how many, int64, and the keys. */
static size_t part_bytes(int64_t n) {
    return ((size_t)n + 1) * sizeof(int64_t);
}

/* All of the table's uses; then the different keys in their place, by part. */
static rk_status list_uses(const rk_sharded *s, int32_t t, rk_prefetch_keys *a) {
    a->uses.n = 0;
    if (!s->next.ids) return RK_OK;
    return rk_embeddings_list_keys_of_table(s->trainer_tables, t, s->next.first, s->next.n, s->next.ids,
                                            &a->uses);
}

static void group_by_part(const rk_sharded *s, int32_t t, rk_prefetch_keys *a) {
    const int64_t *keys = a->different.keys;
    int64_t *begins = a->begins + 1; /* they move on to the ends */
    memset(a->begins, 0, ((size_t)a->n_parts + 2) * sizeof *a->begins);
    for (int64_t i = 0; i < a->different.n; i++) begins[rk_part_of_key(s, t, keys[i], a->n_parts) + 1]++;
    for (int32_t p = 0; p < a->n_parts; p++) begins[p + 1] += begins[p];
    for (int64_t i = 0; i < a->different.n; i++)
        a->uses.keys[begins[rk_part_of_key(s, t, keys[i], a->n_parts)]++] = keys[i];
}

static rk_status find_keys(const rk_sharded *s, int32_t t, rk_prefetch_keys *a) {
    RK_TRY(list_uses(s, t, a));
    rk_key_uses uses = {.keys = a->uses.keys, .rows = a->uses.keys, .n = (int64_t)a->uses.n};
    RK_TRY(rk_unique_keys_find(&a->different, &uses, 1));
    group_by_part(s, t, a);
    return RK_OK;
}

typedef struct finding {
    const rk_sharded *sharded;
    rk_parallel_failure failure;
} finding;

static void find_of_table(void *context, size_t t, int thread) {
    (void)thread;
    finding *f = context;
    rk_prefetch_keys *a = &f->sharded->ahead[t];
    if (a->n_parts) rk_parallel_failure_record(&f->failure, (int64_t)t, find_keys(f->sharded, (int32_t)t, a));
}

rk_status rk_prefetch_keys_find(rk_sharded *s) {
    finding f = {s, RK_FAILURE_INIT};
    if (!s->has_row_files) return RK_OK;
    rk_parallel_for((size_t)s->n_tables, find_of_table, &f);
    return rk_parallel_failure_status(&f.failure);
}

/* What goes to the owner of a stream's shard. */
static rk_key_list keys_of_stream(const rk_sharded *s, const rk_table_shard_stream *stream) {
    const rk_table_shard *shard = &s->shards[stream->shard];
    const rk_prefetch_keys *a = &s->ahead[shard->table];
    int64_t begin = a->begins[shard->part], n = a->begins[shard->part + 1] - begin;
    return (rk_key_list){.keys = n ? a->uses.keys + begin : NULL, .n = (size_t)n};
}

size_t rk_prefetch_keys_bytes(const rk_sharded *s, int32_t owner) {
    size_t n_bytes = 0;
    for (int32_t i = 0; i < s->n_streams_of[owner]; i++) {
        const rk_table_shard_stream *stream = &s->streams[s->streams_of[owner][i]];
        if (stream->on_disk) n_bytes += part_bytes((int64_t)keys_of_stream(s, stream).n);
    }
    return n_bytes;
}

void rk_prefetch_keys_pack(const rk_sharded *s, int32_t owner, char *to) {
    for (int32_t i = 0; i < s->n_streams_of[owner]; i++) {
        const rk_table_shard_stream *stream = &s->streams[s->streams_of[owner][i]];
        if (!stream->on_disk) continue;
        rk_key_list list = keys_of_stream(s, stream);
        int64_t n = (int64_t)list.n;
        memcpy(to, &n, sizeof n);
        if (n) memcpy(to + sizeof n, list.keys, list.n * sizeof *list.keys);
        to += part_bytes(n);
    }
}

rk_status rk_prefetch_keys_read(const rk_sharded *s, rk_in_flight_batch *j, int32_t trainer,
                                const rk_message *message, size_t at) {
    for (int32_t i = 0; i < rk_sharded_n_local_streams(s); i++) {
        const rk_table_shard_stream *stream = &s->streams[s->streams_of[s->rank][i]];
        size_t left = message->n_bytes - at;
        int64_t n;
        if (!stream->on_disk) continue;
        if (left < sizeof n) return rk_message_too_short_error(trainer, "ids", message->n_bytes);
        const char *from = (const char *)message->data + at;
        memcpy(&n, from, sizeof n);
        if (n < 0 || (uint64_t)n > left / sizeof n - 1)
            return rk_message_too_short_error(trainer, "ids", message->n_bytes);
        j->ahead[rk_sharded_stored_feature(s, trainer, i)] =
            (rk_key_list){.keys = (int64_t *)(void *)(size_t)(from + sizeof n), .n = (size_t)n};
        at += part_bytes(n);
    }
    return RK_OK;
}

static rk_status give_keys_of_table(const rk_sharded *s, const rk_in_flight_batch *j, int32_t t,
                                    rk_key_list *keys) {
    for (int32_t f = 0; f < s->store->n_features; f++)
        if (s->store->feature_tables[f] == t) RK_TRY(rk_key_list_add(keys, j->ahead[f].keys, j->ahead[f].n));
    return RK_OK;
}

void rk_prefetch_keys_give(const rk_sharded *s, const rk_in_flight_batch *j) {
    for (int32_t t = 0; t < s->store->n_tables; t++) {
        if (!s->store->tables[t].tier) continue;
        rk_key_list *keys = rk_disk_row_cache_prefetch_keys(s->store->tables[t].tier);
        if (give_keys_of_table(s, j, t, keys) != RK_OK) keys->n = 0; /* the batch will read them */
    }
}
