/* The owner's side of a sharded collection: reads the trainers' ids, sends rows, receives gradients and
 * applies them. Its store has a feature for each trainer and stream, so one lookup and one update serve them
 * all, and sums over trainers are sums over features. */
#include <string.h>

#include "base/thread/parallel.h"
#include "batch/narrow_integers.h"
#include "embedding/sharded/sharded_internal.h"

rk_status rk_message_too_short_error(int32_t trainer, const char *what, size_t n_bytes) {
    return rk_error(RK_INTERNAL, "rank %d sent a message of %s of %zu bytes, shorter than its header says",
                    trainer, what, n_bytes);
}

/* Behind a stream's keys, within what is left of the message. */
static rk_status read_key_uses(const rk_sharded *s, const rk_table_shard_stream *stream,
                               rk_in_flight_batch *j, int32_t trainer, int32_t f, int64_t n_ids,
                               const rk_message *message, size_t *at) {
    size_t first_bytes = (size_t)stream->n_features * sizeof(int64_t);
    if (rk_stream_key_uses_bytes(stream, n_ids) > message->n_bytes - *at)
        return rk_message_too_short_error(trainer, "ids", message->n_bytes);
    RK_TRY(rk_scratch_buffer_reserve(&j->n_first[f], first_bytes));
    RK_TRY(rk_scratch_buffer_reserve(&j->uses[f], (size_t)n_ids * sizeof(uint32_t)));
    const char *from = (const char *)message->data + *at;
    memcpy(j->n_first[f].data, from, first_bytes);
    if (n_ids) memcpy(j->uses[f].data, from + first_bytes, (size_t)n_ids * sizeof(uint32_t));
    *at += rk_stream_key_uses_bytes(stream, n_ids);
    int64_t left = n_ids - rk_stream_n_shared_rows(s, stream);
    for (int32_t k = 0; k < stream->n_features; k++) {
        int64_t n = ((const int64_t *)j->n_first[f].data)[k];
        RK_FAIL_IF(n < 0 || n > left, RK_INTERNAL, "rank %d sent %lld keys, but counts of others", trainer,
                   (long long)n_ids);
        left -= n;
    }
    RK_FAIL_IF(left, RK_INTERNAL, "rank %d sent %lld keys, but counts of fewer", trainer, (long long)n_ids);
    return RK_OK;
}

static rk_status read_ids_of_stream(const rk_sharded *s, rk_in_flight_batch *j, int32_t trainer, int32_t i,
                                    rk_ids_entry entry, const rk_message *message, size_t *at) {
    const rk_table_shard_stream *stream = &s->streams[s->streams_of[s->rank][i]];
    int32_t f = rk_sharded_stored_feature(s, trainer, i);
    bool bags = stream->feature >= 0;
    size_t left = message->n_bytes - *at, most_bags = bags ? left / sizeof(uint32_t) : left,
           most_ids = left / (size_t)stream->id_bytes; /* so that no product overflows */
    bool fits = entry.n_bags >= 0 && entry.n_ids >= 0 && (uint64_t)entry.n_bags <= most_bags &&
                (uint64_t)entry.n_ids <= most_ids;
    if (!fits) return rk_message_too_short_error(trainer, "ids", message->n_bytes);
    size_t bag_bytes = bags ? rk_round_up((size_t)entry.n_bags * sizeof(uint32_t), 8) : 0,
           id_bytes = rk_round_up((size_t)entry.n_ids * (size_t)stream->id_bytes, 8);
    if (bag_bytes + id_bytes > left) return rk_message_too_short_error(trainer, "ids", message->n_bytes);
    RK_FAIL_IF(!bags && entry.n_bags != entry.n_ids, RK_INTERNAL, "rank %d requested %lld rows with %lld ids",
               trainer, (long long)entry.n_bags, (long long)entry.n_ids);
    const char *from = (const char *)message->data + *at;
    *at += bag_bytes + id_bytes;
    RK_TRY(rk_scratch_buffer_reserve(&j->local[f], (size_t)entry.n_ids * sizeof(int64_t)));
    rk_widen_integers(j->local[f].data, stream->id_bytes, from + bag_bytes, entry.n_ids);
    j->counts[f] = entry.n_bags;
    j->stored_ids[f] = (rk_ids){.ids_per_sample = 1, .ids = j->local[f].data};
    if (stream->n_features && j->kind != RK_IN_FLIGHT_CONTROL)
        return read_key_uses(s, stream, j, trainer, f, entry.n_ids, message, at);
    if (!bags) return RK_OK;
    RK_TRY(rk_scratch_buffer_reserve(&j->offsets[f], (size_t)(entry.n_bags + 1) * sizeof(int64_t)));
    int64_t *offsets = j->offsets[f].data;
    const uint32_t *lengths = (const uint32_t *)(const void *)from;
    offsets[0] = 0;
    for (int64_t b = 0; b < entry.n_bags; b++) offsets[b + 1] = offsets[b] + lengths[b];
    if (offsets[entry.n_bags] != entry.n_ids)
        return rk_message_too_short_error(trainer, "ids", message->n_bytes);
    j->stored_ids[f].offsets = offsets;
    return RK_OK;
}

rk_status rk_in_flight_batch_read_ids(rk_sharded *s, rk_in_flight_batch *j) {
    const rk_message *from = rk_all_to_all_received_messages(j->ids);
    int32_t n = rk_sharded_n_local_streams(s);
    size_t head = sizeof(rk_ids_header) + (size_t)n * sizeof(rk_ids_entry);
    for (int32_t r = 0; r < s->roles.n_trainers; r++) {
        if (from[r].n_bytes < head) return rk_message_too_short_error(r, "ids", from[r].n_bytes);
        rk_ids_header header;
        memcpy(&header, from[r].data, sizeof header);
        if (r == 0) j->kind = header.kind, j->word = header.word;
        RK_FAIL_IF(header.kind != j->kind, RK_INTERNAL, "rank %d and rank 0 are not at the same operation",
                   r);
        RK_FAIL_IF(header.kind < RK_IN_FLIGHT_TRAIN || header.kind > RK_IN_FLIGHT_CONTROL, RK_INTERNAL,
                   "rank %d sent an unknown request", r);
        if (j->kind == RK_IN_FLIGHT_TRAIN) j->word = rk_later_timestamp(j->word, header.word);
        const rk_ids_entry *entries =
            (const rk_ids_entry *)(const void *)((const char *)from[r].data + sizeof header);
        size_t at = head;
        for (int32_t i = 0; i < n; i++) RK_TRY(read_ids_of_stream(s, j, r, i, entries[i], &from[r], &at));
        if (j->kind == RK_IN_FLIGHT_TRAIN) RK_TRY(rk_prefetch_keys_read(s, j, r, &from[r], at));
    }
    return RK_OK;
}

/* Bags that are looked up, which are not those of replicated tables that other trainers read for
 * themselves. */
static int64_t count_bags_to_look_up(const rk_sharded *s, const rk_in_flight_batch *j, int32_t trainer,
                                     int32_t i) {
    const rk_table_shard_stream *stream = &s->streams[s->streams_of[s->rank][i]];
    return rk_table_shard_stream_answers(s, stream, trainer, s->rank)
               ? j->counts[rk_sharded_stored_feature(s, trainer, i)]
               : 0;
}

static rk_key_uses keys_of_feature(const rk_in_flight_batch *j, int32_t f, int64_t first, int64_t n) {
    if (!n) return (rk_key_uses){0};
    int64_t *keys = (int64_t *)j->local[f].data + first;
    return (rk_key_uses){.keys = keys, .rows = keys, .n = n, .uses = (uint32_t *)j->uses[f].data + first};
}

/* A stream's keys to its table, in the order of the whole batch: those that a feature of a trainer's samples
 * is the first to use. */
static int32_t list_key_uses(const rk_sharded *s, const rk_in_flight_batch *j, int32_t i, rk_key_uses *out) {
    int32_t n_features = s->streams[s->streams_of[s->rank][i]].n_features, n = 0;
    for (int32_t k = 0; k < n_features; k++)
        for (int32_t r = 0; r < s->roles.n_trainers; r++) {
            int32_t f = rk_sharded_stored_feature(s, r, i);
            const int64_t *n_first = j->n_first[f].data;
            int64_t first = 0;
            for (int32_t before = 0; before < k; before++) first += n_first[before];
            out[n++] = keys_of_feature(j, f, first, n_first[k]);
        }
    return n;
}

/* A table has one stream of keys at the most. */
static rk_status assign_rows_to_keys(rk_sharded *s, rk_in_flight_batch *j) {
    for (int32_t t = 0; t < s->store->n_tables; t++) {
        s->key_begins[t + 1] = s->key_begins[t];
        for (int32_t i = 0; i < rk_sharded_n_local_streams(s); i++) {
            const rk_table_shard_stream *stream = &s->streams[s->streams_of[s->rank][i]];
            if (stream->n_features && s->shards[stream->shard].stored == t)
                s->key_begins[t + 1] += list_key_uses(s, j, i, s->key_uses + s->key_begins[t]);
        }
    }
    s->store->timestamp = j->word;
    return rk_dynamic_rows_assign_uses(s->store, s->key_uses, s->key_begins, s->key_task_begins);
}

typedef struct finding {
    rk_sharded *sharded;
    rk_in_flight_batch *batch;
} finding;

static void find_rows_of_feature(void *context, size_t f, int thread) {
    (void)thread;
    const finding *find = context;
    rk_sharded *s = find->sharded;
    rk_table *table = &s->store->tables[s->store->feature_tables[f]];
    const rk_table_shard_stream *stream = rk_sharded_stream_of_stored_feature(s, (int32_t)f);
    if (!table->dynamic) return;
    int64_t n = find->batch->counts[f] - rk_stream_n_shared_rows(s, stream);
    rk_key_uses keys = keys_of_feature(find->batch, (int32_t)f, 0, n);
    rk_dynamic_find_rows_and_count(table->dynamic, &keys);
}

/* Rows that were found become places, of tables that have rows on a disk. */
static rk_status load_found_rows_from_disk(rk_sharded *s, const rk_in_flight_batch *j) {
    for (int32_t t = 0; t < s->store->n_tables; t++) {
        int32_t n = 0;
        for (int32_t f = 0; f < s->store->n_features && s->store->tables[t].tier; f++)
            if (s->store->feature_tables[f] == t)
                s->key_uses[n++] = keys_of_feature(
                    j, f, 0,
                    j->counts[f] - rk_stream_n_shared_rows(s, rk_sharded_stream_of_stored_feature(s, f)));
        if (n) RK_TRY(rk_table_load_rows_from_disk(&s->store->tables[t], s->key_uses, n, false));
    }
    return RK_OK;
}

rk_status rk_in_flight_batch_keys_to_rows(rk_sharded *s, rk_in_flight_batch *j) {
    finding find = {s, j};
    if (!s->n_dynamic) return RK_OK;
    if (j->kind == RK_IN_FLIGHT_TRAIN) {
        rk_prefetch_keys_give(s, j);
        rk_row_before_images_swap_shared_in(&s->before_images);
        rk_status status = assign_rows_to_keys(s, j);
        rk_row_before_images_swap_shared_out(&s->before_images);
        RK_TRY(status);
    } else {
        rk_parallel_for((size_t)s->store->n_features, find_rows_of_feature, &find);
        RK_TRY(load_found_rows_from_disk(s, j));
    }
    for (int32_t f = 0; f < s->store->n_features; f++)
        if (rk_stream_n_shared_rows(s, rk_sharded_stream_of_stored_feature(s, f)))
            ((int64_t *)j->local[f].data)[j->counts[f] - 1] = 0;
    return RK_OK;
}

static rk_status lay_out_rows_for_trainer(rk_sharded *s, rk_in_flight_batch *j, int32_t trainer) {
    size_t bytes = rk_answer_header_bytes(s);
    for (int32_t i = 0; i < rk_sharded_n_local_streams(s); i++) {
        const rk_table_shard_stream *stream = &s->streams[s->streams_of[s->rank][i]];
        int64_t n = count_bags_to_look_up(s, j, trainer, i);
        bytes += rk_wire_values_bytes(n, s->shards[stream->shard].dim, stream->rows_wire) +
                 rk_stream_absent_flag_bytes(stream, n);
    }
    RK_TRY(rk_scratch_buffer_reserve(&j->answer[trainer], bytes));
    char *to = j->answer[trainer].data;
    if (s->n_dynamic) {
        rk_key_counts counts = rk_embeddings_sum_key_counts(s->store);
        memcpy(to, &counts, sizeof counts);
        to += rk_answer_header_bytes(s);
    }
    for (int32_t i = 0; i < rk_sharded_n_local_streams(s); i++) {
        const rk_table_shard_stream *stream = &s->streams[s->streams_of[s->rank][i]];
        int32_t f = rk_sharded_stored_feature(s, trainer, i), dim = s->shards[stream->shard].dim;
        int64_t n = count_bags_to_look_up(s, j, trainer, i);
        s->activations[f] = (rk_activation){(float *)(void *)to, dim, NULL};
        if (n == 0) continue; /* `to` may be NULL */
        if (stream->rows_wire != RK_F32) {
            RK_TRY(rk_scratch_buffer_reserve(&s->scratch[f], (size_t)n * (size_t)dim * sizeof(float)));
            s->activations[f].data = s->scratch[f].data;
        }
        to += rk_wire_values_bytes(n, dim, stream->rows_wire) + rk_stream_absent_flag_bytes(stream, n);
    }
    s->answers[trainer] = (rk_message){j->answer[trainer].data, bytes};
    atomic_fetch_add(&s->bytes_served, bytes);
    return RK_OK;
}

static void pack_rows_for_trainer(const rk_sharded *s, const rk_in_flight_batch *j, int32_t trainer) {
    char *to = j->answer[trainer].data;
    if (s->n_dynamic) to += rk_answer_header_bytes(s);
    for (int32_t i = 0; i < rk_sharded_n_local_streams(s); i++) {
        const rk_table_shard_stream *stream = &s->streams[s->streams_of[s->rank][i]];
        int32_t f = rk_sharded_stored_feature(s, trainer, i), dim = s->shards[stream->shard].dim;
        int64_t n = count_bags_to_look_up(s, j, trainer, i);
        if (n == 0) continue;
        if (stream->rows_wire != RK_F32) rk_wire_pack(to, stream->rows_wire, s->activations[f].data, n * dim);
        to += rk_wire_values_bytes(n, dim, stream->rows_wire);
        to += rk_in_flight_batch_pack_absent_flags(s, j, f, to);
    }
}

rk_status rk_in_flight_batch_serve_rows(rk_sharded *s, rk_in_flight_batch *j) {
    int32_t n_trainers = s->roles.n_trainers, n = rk_sharded_n_local_streams(s);
    RK_TRY(rk_in_flight_batch_keys_to_rows(s, j));
    for (int32_t r = 0; r < n_trainers; r++) RK_TRY(lay_out_rows_for_trainer(s, j, r));
    int64_t *counts = s->asked;
    for (int32_t r = 0; r < n_trainers; r++)
        for (int32_t i = 0; i < n; i++)
            counts[rk_sharded_stored_feature(s, r, i)] = count_bags_to_look_up(s, j, r, i);
    for (int32_t f = 0; f < s->store->n_features; f++) {
        s->asked_ids[f] = j->stored_ids[f];
        if (!counts[f]) s->asked_ids[f] = (rk_ids){0};
        atomic_fetch_add(&s->rows_served,
                         s->asked_ids[f].offsets ? s->asked_ids[f].offsets[counts[f]] : counts[f]);
    }
    RK_TRY(rk_batch_context_prepare_bags(s->store, &s->store->eval_batch, 0, counts, s->asked_ids, true));
    if (j->kind == RK_IN_FLIGHT_TRAIN) rk_row_before_images_swap_in(&s->before_images);
    rk_batch_context_lookup_all(s->store, &s->store->eval_batch, s->activations, false);
    if (j->kind == RK_IN_FLIGHT_TRAIN) rk_row_before_images_swap_out(&s->before_images);
    for (int32_t r = 0; r < n_trainers; r++) pack_rows_for_trainer(s, j, r);
    return rk_all_to_all_begin(s->comm, RK_CHANNEL_ROWS, s->answers, s->owns ? s->trainers : s->nobody,
                               s->trains ? s->owners : s->nobody, &j->rows);
}

static rk_status read_gradients_of_trainer(rk_sharded *s, const rk_in_flight_batch *j, int32_t trainer,
                                           const rk_message *from) {
    size_t at = RK_GRADIENTS_HEAD;
    for (int32_t i = 0; i < rk_sharded_n_local_streams(s); i++) {
        const rk_table_shard_stream *stream = &s->streams[s->streams_of[s->rank][i]];
        int32_t f = rk_sharded_stored_feature(s, trainer, i), dim = s->shards[stream->shard].dim;
        s->activations[f] = (rk_activation){NULL, dim, NULL};
        if (!stream->trainable) continue;
        int64_t n = j->counts[f];
        size_t bytes = rk_wire_values_bytes(n, dim, stream->gradients_wire);
        RK_TRY(rk_in_flight_batch_drop_gradients_of_absent_keys(s, j, f, trainer, from, &at));
        atomic_fetch_add(&s->gradients_taken, n);
        if (at + bytes > from->n_bytes)
            return rk_message_too_short_error(trainer, "gradients", from->n_bytes);
        s->activations[f].data = (float *)(void *)((char *)from->data + at);
        if (stream->gradients_wire != RK_F32) {
            RK_TRY(rk_scratch_buffer_reserve(&s->scratch[f], (size_t)n * (size_t)dim * sizeof(float)));
            rk_wire_unpack(s->scratch[f].data, stream->gradients_wire, (char *)from->data + at, n * dim);
            s->activations[f].data = s->scratch[f].data;
        }
        at += bytes;
    }
    return RK_OK;
}

rk_status rk_in_flight_batch_read_gradients_header(const rk_in_flight_batch *j, int32_t trainer,
                                                   rk_gradients_header *out) {
    const rk_message *from = &rk_all_to_all_received_messages(j->gradients)[trainer];
    if (from->n_bytes < RK_GRADIENTS_HEAD)
        return rk_message_too_short_error(trainer, "gradients", from->n_bytes);
    memcpy(out, from->data, sizeof *out);
    return RK_OK;
}

static rk_status read_step_status(rk_in_flight_batch *j) {
    const rk_message *from = &rk_all_to_all_received_messages(j->step_status)[0];
    if (from->n_bytes < sizeof j->applies)
        return rk_message_too_short_error(0, "a step status", from->n_bytes);
    memcpy(&j->applies, from->data, sizeof j->applies);
    return RK_OK;
}

rk_status rk_in_flight_batch_receive_gradients(rk_sharded *s, rk_in_flight_batch *j) {
    const rk_message *from = rk_all_to_all_received_messages(j->gradients);
    for (int32_t r = 0; r < s->roles.n_trainers; r++) RK_TRY(read_gradients_of_trainer(s, j, r, &from[r]));
    return rk_batch_context_dedup(s->store, &s->store->batch_contexts[s->store->now], 0, j->counts,
                                  j->stored_ids);
}

rk_status rk_in_flight_batch_update_rows(rk_sharded *s, rk_in_flight_batch *j) {
    if (!s->trains) RK_TRY(read_step_status(j));
    if (!j->applies) return RK_OK;
    RK_TRY(rk_in_flight_batch_receive_gradients(s, j));
    RK_TRY(rk_embeddings_begin_update(
        s->store, s->activations,
        false)); /* a row that is not finite stays so: what came is checked here too */
    RK_TRY(rk_row_before_images_capture(&s->before_images, s->n_trained));
    rk_embeddings_update_all(s->store);
    return RK_OK;
}
