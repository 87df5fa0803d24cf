/* The trainer's side of a sharded collection: makes its batch's ids unique and sends them, receives rows,
 * sums gradients and sends them. */
#include <string.h>

#include "base/memory.h"
#include "base/thread/parallel.h"
#include "batch/narrow_integers.h"
#include "embedding/sharded/sharded_internal.h"

static bool is_pooled_by_owner(const rk_sharded *s, int32_t t) {
    return s->trainer_tables->tables[t].part.unplanned;
}

static int32_t count_features_of_table(const rk_sharded *s, int32_t t) {
    return s->trainer_tables->table_begins[t + 1] - s->trainer_tables->table_begins[t];
}

static rk_feature_bags *bags_of_source(const rk_sharded *s, rk_in_flight_batch *j, int32_t t,
                                       int32_t source) {
    return &j->batch_context.uses[s->trainer_tables->by_table[s->trainer_tables->table_begins[t] + source]];
}

/* Parts of each slice of table t. */
static int32_t parts_per_slice(const rk_sharded *s, int32_t t) {
    int32_t i = 0;
    while (s->shards[i].table != t) i++;
    return s->shards[i].n_parts;
}

/* The table's different rows in ascending order, in wanted->order; the uses' numbers among them in
 * targets. */
static int64_t find_distinct_rows(const rk_row_uses *plan, int64_t *order, int64_t *targets) {
    int64_t n = 0;
    for (uint32_t p = 0; p < plan->n_parts; p++)
        for (uint32_t i = plan->part_begins[p]; i < plan->part_begins[p + 1]; i++) {
            int64_t row = ((int64_t)p << plan->shift) + rk_row_use_place(plan->uses[i]);
            if (n == 0 || order[n - 1] != row) order[n++] = row;
            targets[(uint32_t)plan->uses[i]] = n - 1;
        }
    return n;
}

/* Groups rows by part, ascending in each; targets follow them. */
static void group_rows_by_part(rk_unique_rows *w, int32_t n_parts, int64_t n_uses) {
    int64_t *order = w->order.data, *rows = w->rows.data, *targets = w->targets.data;
    for (int32_t p = 0; p <= n_parts; p++) w->begins[p] = 0;
    for (int64_t i = 0; i < w->n; i++) w->begins[order[i] % n_parts + 1]++;
    for (int32_t p = 0; p < n_parts; p++) w->begins[p + 1] += w->begins[p];
    for (int64_t i = 0; i < w->n; i++) { /* begins move on to their ends, and back below */
        int64_t part = order[i] % n_parts, at = w->begins[part]++;
        rows[at] = order[i] / n_parts;
        order[i] = at;
    }
    for (int32_t p = n_parts; p > 0; p--) w->begins[p] = w->begins[p - 1];
    w->begins[0] = 0;
    for (int64_t u = 0; u < n_uses && n_parts > 1; u++) targets[u] = order[targets[u]];
}

static rk_status find_unique_rows(const rk_sharded *s, rk_in_flight_batch *j, int32_t t) {
    const rk_row_uses *plan = &j->batch_context.plans[t];
    rk_unique_rows *w = &j->unique[t];
    size_t n = (size_t)plan->n;
    RK_TRY(rk_scratch_buffer_reserve(&w->order, n * sizeof(int64_t)));
    RK_TRY(rk_scratch_buffer_reserve(&w->rows, n * sizeof(int64_t)));
    RK_TRY(rk_scratch_buffer_reserve(&w->targets, n * sizeof(int64_t)));
    w->n = find_distinct_rows(plan, w->order.data, w->targets.data);
    group_rows_by_part(w, parts_per_slice(s, t), plan->n);
    int64_t occurrence = 0;
    for (int32_t k = 0; k < count_features_of_table(s, t); k++) {
        rk_feature_bags *use = bags_of_source(s, j, t, k);
        use->ids = (int64_t *)w->targets.data + occurrence;
        occurrence += use->n_ids;
    }
    return RK_OK;
}

static bool is_dynamic_table(const rk_sharded *s, int32_t t) {
    return rk_table_is_dynamic(&s->trainer_tables->tables[t]);
}

/* Groups keys by part, each in the order of first uses; order: where a key's number went. */
static void group_keys_by_part(const rk_sharded *s, const rk_unique_keys *keys, int32_t t,
                               rk_unique_rows *w) {
    const rk_dynamic_config *config = &s->trainer_tables->tables[t].dynamic_config;
    int32_t n_parts = parts_per_slice(s, t), n_features = count_features_of_table(s, t);
    int64_t *order = w->order.data, *sent = w->rows.data;
    uint32_t *uses = w->uses.data;
    memset(w->begins, 0, ((size_t)n_parts + 1) * sizeof *w->begins);
    memset(w->n_first, 0, (size_t)n_parts * (size_t)n_features * sizeof *w->n_first);
    for (int32_t k = 0; k < n_features; k++)
        for (int64_t i = keys->begins[k]; i < keys->begins[k + 1]; i++) {
            order[i] = rk_part_of_key(s, t, keys->keys[i], n_parts);
            w->begins[order[i] + 1]++;
            w->n_first[order[i] * n_features + k]++;
        }
    w->begins[1] += config->oov;
    for (int32_t p = 0; p < n_parts; p++) w->begins[p + 1] += w->begins[p];
    for (int64_t i = 0; i < keys->n; i++) { /* begins move on to their ends, and back below */
        int64_t at = w->begins[order[i]]++;
        sent[at] = keys->keys[i];
        uses[at] = keys->uses[i];
        order[i] = at;
    }
    if (config->oov) {
        w->shared = w->begins[0]++;
        sent[w->shared] = uses[w->shared] = 0;
    }
    for (int32_t p = n_parts; p > 0; p--) w->begins[p] = w->begins[p - 1];
    w->begins[0] = 0;
}

static rk_status find_unique_keys(const rk_sharded *s, rk_in_flight_batch *j, int32_t t) {
    const rk_unique_keys *keys = &j->batch_context.batch_keys[t];
    rk_unique_rows *w = &j->unique[t];
    w->n = keys->n + s->trainer_tables->tables[t].dynamic_config.oov;
    size_t n = (size_t)w->n;
    RK_TRY(rk_scratch_buffer_reserve(&w->order, n * sizeof(int64_t)));
    RK_TRY(rk_scratch_buffer_reserve(&w->rows, n * sizeof(int64_t)));
    RK_TRY(rk_scratch_buffer_reserve(&w->absent, n));
    RK_TRY(rk_scratch_buffer_reserve(&w->uses, n * sizeof(uint32_t)));
    RK_TRY(rk_scratch_buffer_reserve(&w->targets, (size_t)j->batch_context.plans[t].n * sizeof(int64_t)));
    w->shares = false;
    group_keys_by_part(s, keys, t, w);
    const int64_t *order = w->order.data;
    int64_t *targets = w->targets.data;
    for (int32_t k = 0; k < count_features_of_table(s, t); k++) {
        rk_feature_bags *use = bags_of_source(s, j, t, k);
        for (int64_t i = 0; i < use->n_ids; i++) targets[i] = order[use->ids[i]];
        use->ids = targets;
        targets += use->n_ids;
    }
    return RK_OK;
}

/* Combined elsewhere, a bag is one row here. Its ids are still needed, to be sent. */
static rk_status find_bags_pooled_by_owner(const rk_sharded *s, rk_in_flight_batch *j, int32_t t) {
    rk_unique_rows *w = &j->unique[t];
    w->bag_begins[0] = 0;
    for (int32_t k = 0; k < count_features_of_table(s, t); k++) {
        const rk_feature_bags *use = bags_of_source(s, j, t, k);
        RK_FAIL_IF(use->coefficients, RK_UNSUPPORTED,
                   "table '%s' has owner_pooling, which does not support weights\nhint: turn 'owner_pooling' "
                   "off, and mark its features as weighted",
                   s->trainer_tables->tables[t].config.name);
        w->bag_begins[k + 1] = w->bag_begins[k] + use->n_bags;
    }
    w->n = w->bag_begins[count_features_of_table(s, t)];
    RK_TRY(rk_scratch_buffer_reserve(&w->targets, (size_t)w->n * sizeof(int64_t)));
    for (int64_t i = 0; i < w->n; i++) ((int64_t *)w->targets.data)[i] = i;
    return RK_OK;
}

static void point_bags_at_unique_rows(const rk_sharded *s, rk_in_flight_batch *j, int32_t t) {
    for (int32_t k = 0; k < count_features_of_table(s, t); k++) {
        rk_feature_bags *use = bags_of_source(s, j, t, k);
        use->ids = j->unique[t].targets.data;
        use->scales = NULL;
        use->single = true;
    }
}

/* What a stream gets of this batch: ids, for bags their lengths, for keys their uses and how many each
 * feature is the first to use. */
typedef struct stream_ids {
    rk_ids_entry entry;
    const int64_t *ids, *offsets; /* offsets NULL: rows */
    const uint32_t *uses;         /* NULL: no keys */
    const int64_t *n_first;
} stream_ids;

static stream_ids ids_of_stream(const rk_sharded *s, rk_in_flight_batch *j,
                                const rk_table_shard_stream *stream) {
    const rk_table_shard *shard = &s->shards[stream->shard];
    const rk_unique_rows *w = &j->unique[shard->table];
    if (stream->feature >= 0) {
        const rk_feature_bags *use = &j->batch_context.uses[stream->feature];
        return (stream_ids){.entry = {use->n_bags, use->n_ids}, .ids = use->ids, .offsets = use->offsets};
    }
    int64_t begin = w->begins[shard->part], n = w->begins[shard->part + 1] - begin;
    stream_ids part = {.entry = {n, n}, .ids = n ? (int64_t *)w->rows.data + begin : NULL};
    if (stream->n_features) {
        part.uses = n ? (uint32_t *)w->uses.data + begin : NULL;
        part.n_first = w->n_first + (size_t)shard->part * (size_t)stream->n_features;
    }
    return part;
}

static size_t packed_ids_bytes(const rk_table_shard_stream *stream, const stream_ids *part) {
    size_t bags = part->offsets ? rk_round_up((size_t)part->entry.n_bags * sizeof(uint32_t), 8) : 0;
    return bags + rk_round_up((size_t)part->entry.n_ids * (size_t)stream->id_bytes, 8) +
           rk_stream_key_uses_bytes(stream, part->entry.n_ids);
}

/* Behind a stream's keys. */
static void pack_key_uses(const rk_table_shard_stream *stream, const stream_ids *part, char *to) {
    size_t n = (size_t)part->entry.n_ids;
    memcpy(to, part->n_first, (size_t)stream->n_features * sizeof *part->n_first);
    if (n)
        memcpy(to + (size_t)stream->n_features * sizeof *part->n_first, part->uses, n * sizeof *part->uses);
}

static rk_status pack_ids(const rk_sharded *s, rk_in_flight_batch *j, int32_t owner) {
    int32_t n = s->n_streams_of[owner];
    size_t at = sizeof(rk_ids_header) + (size_t)n * sizeof(rk_ids_entry), bytes = at;
    for (int32_t i = 0; i < n && j->kind != RK_IN_FLIGHT_CONTROL; i++) {
        stream_ids part = ids_of_stream(s, j, &s->streams[s->streams_of[owner][i]]);
        bytes += packed_ids_bytes(&s->streams[s->streams_of[owner][i]], &part);
    }
    if (j->kind == RK_IN_FLIGHT_TRAIN) bytes += rk_prefetch_keys_bytes(s, owner);
    RK_TRY(rk_scratch_buffer_reserve(&j->ask[owner], bytes));
    char *to = j->ask[owner].data;
    memcpy(to, &(rk_ids_header){j->kind, j->word}, sizeof(rk_ids_header));
    rk_ids_entry *entries = (rk_ids_entry *)(void *)(to + sizeof(rk_ids_header));
    for (int32_t i = 0; i < n; i++) {
        const rk_table_shard_stream *stream = &s->streams[s->streams_of[owner][i]];
        entries[i] = (rk_ids_entry){0, 0};
        if (j->kind == RK_IN_FLIGHT_CONTROL) continue;
        stream_ids part = ids_of_stream(s, j, stream);
        entries[i] = part.entry;
        uint32_t *lengths = (uint32_t *)(void *)(to + at);
        for (int64_t b = 0; b < part.entry.n_bags && part.offsets; b++)
            lengths[b] = (uint32_t)(part.offsets[b + 1] - part.offsets[b]);
        size_t bags = part.offsets ? rk_round_up((size_t)part.entry.n_bags * sizeof(uint32_t), 8) : 0;
        rk_narrow_integers(to + at + bags, stream->id_bytes, part.ids, part.entry.n_ids, 0);
        at += packed_ids_bytes(stream, &part);
        if (stream->n_features)
            pack_key_uses(stream, &part, to + at - rk_stream_key_uses_bytes(stream, part.entry.n_ids));
    }
    if (j->kind == RK_IN_FLIGHT_TRAIN) rk_prefetch_keys_pack(s, owner, to + at);
    return RK_OK;
}

rk_status rk_in_flight_batch_input_dist(rk_sharded *s, rk_in_flight_batch *j, int64_t n, const rk_ids *ids) {
    if (j->kind != RK_IN_FLIGHT_CONTROL) {
        RK_TRY(rk_batch_context_dedup(s->trainer_tables, &j->batch_context, n, NULL, ids));
        for (int32_t t = 0; t < s->trainer_tables->n_tables; t++)
            if (count_features_of_table(s, t))
                RK_TRY(is_pooled_by_owner(s, t) ? find_bags_pooled_by_owner(s, j, t)
                       : is_dynamic_table(s, t) ? find_unique_keys(s, j, t)
                                                : find_unique_rows(s, j, t));
    }
    if (j->kind == RK_IN_FLIGHT_TRAIN) RK_TRY(rk_prefetch_keys_find(s));
    for (int32_t r = 0; r < s->size; r++) {
        if (s->owners[r]) RK_TRY(pack_ids(s, j, r));
        s->messages[r] = s->owners[r] ? (rk_message){j->ask[r].data, j->ask[r].n_bytes} : (rk_message){0};
    }
    for (int32_t t = 0; t < s->trainer_tables->n_tables && j->kind != RK_IN_FLIGHT_CONTROL; t++)
        if (count_features_of_table(s, t) && is_pooled_by_owner(s, t)) point_bags_at_unique_rows(s, j, t);
    return rk_all_to_all_begin(s->comm, RK_CHANNEL_IDS, s->messages, s->owners,
                               s->owns ? s->trainers : s->nobody, &j->ids);
}

int64_t rk_in_flight_batch_stream_count(const rk_sharded *s, rk_in_flight_batch *j,
                                        const rk_table_shard_stream *stream) {
    return ids_of_stream(s, j, stream).entry.n_bags;
}

int64_t rk_in_flight_batch_stream_offset(const rk_sharded *s, const rk_in_flight_batch *j,
                                         const rk_table_shard_stream *stream) {
    const rk_table_shard *shard = &s->shards[stream->shard];
    const rk_unique_rows *w = &j->unique[shard->table];
    return stream->feature < 0
               ? w->begins[shard->part]
               : w->bag_begins[rk_embeddings_feature_number_in_table(s->trainer_tables, stream->feature)];
}

/* A stream's values of this batch: whole rows are dim of the table apart. */
static float *values_of_stream(const rk_sharded *s, const rk_in_flight_batch *j,
                               const rk_table_shard_stream *stream) {
    const rk_table_shard *shard = &s->shards[stream->shard];
    return (float *)j->unique[shard->table].values.data +
           rk_in_flight_batch_stream_offset(s, j, stream) *
               s->trainer_tables->tables[shard->table].config.dim +
           shard->first_column;
}

static void unpack_rows(float *to, int64_t stride, const char *from, int64_t n, int32_t dim, rk_dtype wire) {
    if (stride == dim)
        rk_wire_unpack(to, wire, from, n * dim);
    else
        for (int64_t i = 0; i < n; i++)
            rk_wire_unpack(to + i * stride, wire, from + (size_t)(i * dim) * rk_dtype_bytes(wire), dim);
}

static void pack_rows(char *to, const float *from, int64_t stride, int64_t n, int32_t dim, rk_dtype wire) {
    if (stride == dim)
        rk_wire_pack(to, wire, from, n * dim);
    else
        for (int64_t i = 0; i < n; i++)
            rk_wire_pack(to + (size_t)(i * dim) * rk_dtype_bytes(wire), wire, from + i * stride, dim);
}

rk_status rk_in_flight_batch_output_dist(rk_sharded *s, rk_in_flight_batch *j) {
    for (int32_t t = 0; t < s->trainer_tables->n_tables; t++)
        if (count_features_of_table(s, t))
            RK_TRY(rk_scratch_buffer_reserve(
                &j->unique[t].values,
                (size_t)j->unique[t].n * (size_t)s->trainer_tables->tables[t].config.dim * sizeof(float)));
    const rk_message *from = rk_all_to_all_received_messages(j->rows);
    j->keys = (rk_key_counts){.n_tables = s->n_dynamic};
    for (int32_t owner = 0; owner < s->size; owner++) {
        size_t at = rk_answer_header_bytes(s);
        if (s->owners[owner] && s->n_dynamic)
            RK_TRY(rk_in_flight_batch_read_key_counts(s, j, owner, &from[owner]));
        for (int32_t i = 0; i < s->n_streams_of[owner]; i++) {
            const rk_table_shard_stream *stream = &s->streams[s->streams_of[owner][i]];
            const rk_table_shard *shard = &s->shards[stream->shard];
            if (!rk_table_shard_stream_answers(s, stream, s->rank, owner)) continue;
            int64_t n = rk_in_flight_batch_stream_count(s, j, stream);
            size_t bytes = rk_wire_values_bytes(n, shard->dim, stream->rows_wire);
            if (n == 0) continue; /* messages and boxes may be NULL */
            RK_FAIL_IF(at + bytes > from[owner].n_bytes, RK_INTERNAL,
                       "rank %d sent %zu bytes of rows, but at least %zu are needed", owner,
                       from[owner].n_bytes, at + bytes);
            unpack_rows(values_of_stream(s, j, stream), s->trainer_tables->tables[shard->table].config.dim,
                        (char *)from[owner].data + at, n, shard->dim, stream->rows_wire);
            at += bytes;
            RK_TRY(rk_in_flight_batch_read_absent_flags(s, j, stream, owner, &from[owner], &at));
        }
    }
    return RK_OK;
}

/* A plan of its places: the same rows, but for those that are one now. */
static rk_status rebuild_row_uses(rk_sharded *s, rk_in_flight_batch *j, int32_t t) {
    rk_embeddings *e = s->trainer_tables;
    e->tables[t].config.n_rows = j->unique[t].n;
    RK_TRY(rk_reserve(&e->scratch, &e->scratch_capacity, RK_USES_SCRATCH, sizeof *e->scratch));
    RK_TRY(rk_row_uses_prepare(e, &j->batch_context, t));
    rk_row_uses_sort_all(e, &j->batch_context, t, e->scratch);
    return RK_OK;
}

rk_status rk_in_flight_batch_share_rows(rk_sharded *s, rk_in_flight_batch *j) {
    RK_TRY(rk_in_flight_batch_map_absent_keys(s, j));
    for (int32_t t = 0; t < s->trainer_tables->n_tables && j->kind == RK_IN_FLIGHT_TRAIN; t++)
        if (j->unique[t].shares) RK_TRY(rebuild_row_uses(s, j, t));
    return RK_OK;
}

typedef struct summing {
    rk_sharded *sharded;
    rk_in_flight_batch *batch;
} summing;

/* A piece of a table's gradients, where its rows were. */
static void sum_gradients_of_piece(void *context, size_t task, int thread) {
    (void)thread;
    const summing *a = context;
    const rk_embeddings *e = a->sharded->trainer_tables;
    const rk_batch_context *batch_context = &a->batch->batch_context;
    size_t t = rk_partition_find_item(batch_context->piece_begins, (size_t)e->n_tables, task);
    const rk_row_uses *plan = &batch_context->plans[t];
    rk_use_piece piece = rk_row_uses_piece(plan, task - batch_context->piece_begins[t]);
    rk_sum_row_gradients_args args = {
        .from = {.rows = {.dtype = e->tables[t].config.dtype, .dim = e->tables[t].config.dim},
                 .uses = plan->uses + piece.first,
                 .n_uses = piece.last - piece.first,
                 .sources = plan->sources,
                 .n_sources = plan->n_sources,
                 .has_leaves = plan->has_leaves,
                 .bags = plan->bags,
                 .coefficients = plan->coefficients},
        .targets = a->batch->unique[t].targets.data,
        .out = a->batch->unique[t].values.data,
    };
    rk_sum_row_gradients(&args);
}

static bool are_gradients_summed(const rk_sharded *s, int32_t t) {
    return count_features_of_table(s, t) && !is_pooled_by_owner(s, t) &&
           !s->trainer_tables->tables[t].config.frozen;
}

static void sum_gradients_by_row(rk_sharded *s, rk_in_flight_batch *j, const rk_activation *gradients) {
    rk_embeddings *e = s->trainer_tables;
    for (int32_t t = 0; t < e->n_tables; t++) {
        j->batch_context.piece_begins[t + 1] = j->batch_context.piece_begins[t];
        if (!are_gradients_summed(s, t)) continue;
        rk_row_uses_set_gradients(e, &j->batch_context.plans[t], t, gradients);
        j->batch_context.piece_begins[t + 1] += rk_row_uses_n_pieces(&j->batch_context.plans[t]);
    }
    summing a = {s, j};
    rk_parallel_for(j->batch_context.piece_begins[e->n_tables], sum_gradients_of_piece, &a);
}

static void pack_gradients(const rk_sharded *s, rk_in_flight_batch *j, const rk_table_shard_stream *stream,
                           int64_t n, const rk_activation *gradients, char *to) {
    const rk_table_shard *shard = &s->shards[stream->shard];
    if (stream->feature >= 0)
        pack_rows(to, gradients[stream->feature].data + shard->first_column,
                  gradients[stream->feature].stride, n, shard->dim, stream->gradients_wire);
    else
        pack_rows(to, values_of_stream(s, j, stream), s->trainer_tables->tables[shard->table].config.dim, n,
                  shard->dim, stream->gradients_wire);
}

/* Behind the header. */
static rk_status pack_gradients_of_owner(const rk_sharded *s, rk_in_flight_batch *j, int32_t owner,
                                         const rk_activation *gradients) {
    size_t at = RK_GRADIENTS_HEAD, bytes = at;
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t i = 0; i < s->n_streams_of[owner]; i++) {
            const rk_table_shard_stream *stream = &s->streams[s->streams_of[owner][i]];
            if (!stream->trainable) continue;
            int64_t n = rk_in_flight_batch_stream_count(s, j, stream);
            if (pass == 1)
                at +=
                    rk_in_flight_batch_pack_shared_row_flags(s, j, stream, (char *)j->give[owner].data + at);
            else
                bytes += rk_stream_shared_row_flag_bytes(s, stream, n);
            if (pass == 1 && n) pack_gradients(s, j, stream, n, gradients, (char *)j->give[owner].data + at);
            *(pass ? &at : &bytes) +=
                rk_wire_values_bytes(n, s->shards[stream->shard].dim, stream->gradients_wire);
        }
        if (pass == 0) RK_TRY(rk_scratch_buffer_reserve(&j->give[owner], bytes));
    }
    return RK_OK;
}

static rk_status send_gradients(rk_sharded *s, rk_in_flight_batch *j) {
    rk_gradients_header header = {atomic_load(&s->begun)};
    for (int32_t r = 0; r < s->size; r++) {
        if (s->owners[r]) memcpy(j->give[r].data, &header, sizeof header);
        s->messages[r] = s->owners[r] ? (rk_message){j->give[r].data, j->give[r].n_bytes} : (rk_message){0};
    }
    return rk_all_to_all_begin(s->comm, RK_CHANNEL_GRADIENTS, s->messages, s->owners,
                               s->owns ? s->trainers : s->nobody, &j->gradients);
}

rk_status rk_in_flight_batch_send_gradients(rk_sharded *s, rk_in_flight_batch *j,
                                            const rk_activation *gradients) {
    sum_gradients_by_row(s, j, gradients);
    for (int32_t r = 0; r < s->size; r++)
        if (s->owners[r]) RK_TRY(pack_gradients_of_owner(s, j, r, gradients));
    return send_gradients(s, j);
}

/* A trainer without gradients says so, since others may have some. */
static rk_status send_no_gradients(rk_sharded *s, rk_in_flight_batch *j) {
    for (int32_t r = 0; r < s->size; r++)
        if (s->owners[r]) RK_TRY(rk_scratch_buffer_reserve(&j->give[r], RK_GRADIENTS_HEAD));
    return send_gradients(s, j);
}

rk_status rk_in_flight_batch_send_step_status(rk_sharded *s, rk_in_flight_batch *j, bool applies) {
    j->applies = applies;
    if (!j->gradients) RK_TRY(send_no_gradients(s, j));
    if (s->rank > 0 || s->roles.n_owners == 0) return RK_OK;
    for (int32_t r = 0; r < s->size; r++)
        s->messages[r] = s->servers[r] ? (rk_message){&j->applies, sizeof j->applies} : (rk_message){0};
    return rk_all_to_all_begin(s->comm, RK_CHANNEL_STEP_STATUS, s->messages, s->servers, s->nobody,
                               &j->step_status);
}
