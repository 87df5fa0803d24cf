/* Creates a sharded collection: parts of tables, streams to them, tables without rows for trainers, and a
 * store of this rank's parts. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "embedding/planner/planner_request.h"
#include "embedding/planner/table_traffic.h"
#include "embedding/sharded/sharded_internal.h"

rk_status rk_table_placements_check_same(rk_comm *comm, const rk_table_placement *placements, int32_t n) {
    uint64_t hash = 0;
    bool same;
    for (int32_t t = 0; t < n; t++) {
        const rk_table_placement *p = &placements[t];
        int32_t head[4] = {p->replicated, p->replicated ? 0 : p->n_slices, p->replicated ? 0 : p->n_parts,
                           p->owner_pooling};
        hash = rk_hash_bytes(head, sizeof head, hash);
        if (!p->replicated)
            hash = rk_hash_bytes(p->owners, (size_t)(p->n_slices * p->n_parts) * sizeof *p->owners, hash);
    }
    RK_TRY(rk_comm_all_equal(comm, &hash, sizeof hash, &same));
    if (same) return RK_OK;
    return rk_error_hint(
        rk_error(RK_CONFIG, "the ranks computed different sharding plans"),
        "use one plan on all ranks: write it with 'reckon plan --write' and set cluster.plan");
}

/* What dynamic tables cannot be: on several ranks at once, or without the order of their batches' keys. */
static rk_status check_dynamic_table(const rk_table_config *table, const rk_table_placement *p,
                                     const rk_dynamic_config *dynamic) {
    RK_FAIL_IF(p->replicated || p->n_slices > 1 || p->owner_pooling, RK_INVALID_ARGUMENT,
               "table '%s' is dynamic: it is cut by its keys alone, and its rows travel one by one",
               table->name);
    RK_FAIL_IF(p->n_parts > dynamic->n_buckets, RK_INVALID_ARGUMENT,
               "table '%s': %lld buckets cannot be cut into %d parts", table->name,
               (long long)dynamic->n_buckets, p->n_parts);
    return RK_OK;
}

static rk_status check_placement(const rk_table_config *table, const rk_table_placement *p,
                                 const rk_roles *roles) {
    if (p->replicated) return RK_OK;
    RK_FAIL_IF(p->n_slices < 1 || p->n_parts < 1 || table->dim % p->n_slices, RK_INVALID_ARGUMENT,
               "table '%s': dim %d is not divisible into %d column slices", table->name, table->dim,
               p->n_slices);
    RK_FAIL_IF(p->n_parts > table->n_rows, RK_INVALID_ARGUMENT,
               "table '%s': %lld rows cannot be cut into %d parts", table->name, (long long)table->n_rows,
               p->n_parts);
    RK_FAIL_IF(p->owner_pooling && p->n_parts > 1, RK_INVALID_ARGUMENT,
               "table '%s': owner_pooling needs all its rows on one rank, but they are on several",
               table->name);
    int32_t first = roles->n_owners ? roles->n_trainers : 0, last = roles->n_trainers + roles->n_owners;
    for (int32_t i = 0; i < p->n_slices * p->n_parts; i++)
        RK_FAIL_IF(p->owners[i] < first || p->owners[i] >= last, RK_INVALID_ARGUMENT,
                   "table '%s' is assigned to rank %d, but only ranks %d to %d hold rows", table->name,
                   p->owners[i], first, last - 1);
    return RK_OK;
}

static rk_status check_features_of_table(const rk_embeddings_config *c, const rk_table_config *table,
                                         const rk_table_placement *p) {
    const char *reason = p->owner_pooling && !p->replicated
                             ? rk_reason_against_owner_pooling(c->features, c->n_features, table->name)
                             : NULL;
    RK_FAIL_IF(reason, RK_INVALID_ARGUMENT, "table '%s': 'owner_pooling' is not possible: %s", table->name,
               reason);
    return RK_OK;
}

static const rk_dynamic_config *dynamic_config_of_table(const rk_sharded_options *o, int32_t t) {
    return o->dynamic && o->dynamic[t].max_capacity ? &o->dynamic[t] : NULL;
}

static int64_t rows_of_part(const rk_sharded_options *o, int32_t t, int32_t part, int32_t n_parts) {
    const rk_dynamic_config *dynamic = dynamic_config_of_table(o, t);
    return dynamic ? rk_dynamic_part_capacity(dynamic, part, n_parts)
                   : rk_table_part_rows(o->config->tables[t].n_rows, part, n_parts);
}

static rk_status add_shards(rk_sharded *s, const rk_sharded_options *o) {
    const rk_embeddings_config *c = o->config;
    size_t n = 0;
    for (int32_t t = 0; t < c->n_tables; t++) {
        const rk_table_placement *p = &o->placements[t];
        if (dynamic_config_of_table(o, t)) {
            RK_TRY(check_dynamic_table(&c->tables[t], p, dynamic_config_of_table(o, t)));
            s->n_dynamic++;
            s->has_row_files |= dynamic_config_of_table(o, t)->storage != NULL;
        }
        RK_TRY(check_placement(&c->tables[t], p, &s->roles));
        RK_TRY(check_features_of_table(c, &c->tables[t], p));
        n += p->replicated ? 1 : (size_t)(p->n_slices * p->n_parts);
    }
    RK_TRY(rk_alloc(n, sizeof *s->shards, &s->shards));
    for (int32_t t = 0; t < c->n_tables; t++) {
        const rk_table_placement *p = &o->placements[t];
        int32_t n_slices = p->replicated ? 1 : p->n_slices, n_parts = p->replicated ? 1 : p->n_parts,
                dim = c->tables[t].dim / n_slices;
        for (int32_t i = 0; i < n_slices * n_parts; i++)
            s->shards[s->n_shards++] = (rk_table_shard){.table = t,
                                                        .slice = i / n_parts,
                                                        .part = i % n_parts,
                                                        .n_parts = n_parts,
                                                        .owner = p->replicated ? -1 : p->owners[i],
                                                        .first_column = i / n_parts * dim,
                                                        .dim = dim,
                                                        .stored = -1,
                                                        .n_rows = rows_of_part(o, t, i % n_parts, n_parts)};
    }
    return RK_OK;
}

static int id_bytes_for_rows(int64_t n_rows) {
    return n_rows <= 1 << 16 ? 2 : n_rows <= (int64_t)1 << 32 ? 4 : 8;
}

/* Rows of 16 bits travel as they are; else as `wire` says. */
static rk_table_shard_stream make_stream_of_feature(const rk_sharded *s, const rk_sharded_options *o,
                                                    int32_t shard, int32_t feature) {
    const rk_table_config *table = &o->config->tables[s->shards[shard].table];
    bool exact = table->dtype != RK_F32 && feature < 0,
         keyed = dynamic_config_of_table(o, s->shards[shard].table) != NULL;
    return (rk_table_shard_stream){.shard = shard,
                                   .feature = feature,
                                   .id_bytes = keyed ? 8 : id_bytes_for_rows(s->shards[shard].n_rows),
                                   .rows_wire = exact ? table->dtype : o->wire,
                                   .gradients_wire = o->wire,
                                   .trainable = !table->frozen};
}

static bool feature_reads_table(const rk_embeddings_config *c, int32_t feature, int32_t table) {
    return c->features[feature].table && strcmp(c->features[feature].table, c->tables[table].name) == 0;
}

static rk_status add_streams_of_features(rk_sharded *s, const rk_sharded_options *o) {
    const rk_embeddings_config *c = o->config;
    RK_TRY(rk_alloc((size_t)s->n_shards * (size_t)(c->n_features + 1), sizeof *s->streams, &s->streams));
    for (int32_t h = 0; h < s->n_shards; h++) {
        int32_t t = s->shards[h].table, n_readers = 0;
        bool owner_pooling = o->placements[t].owner_pooling && !o->placements[t].replicated;
        for (int32_t f = 0; f < c->n_features; f++) {
            if (!feature_reads_table(c, f, t)) continue;
            if (owner_pooling) s->streams[s->n_streams++] = make_stream_of_feature(s, o, h, f);
            n_readers++;
        }
        if (owner_pooling || !n_readers) continue;
        s->streams[s->n_streams] = make_stream_of_feature(s, o, h, -1);
        if (dynamic_config_of_table(o, t)) {
            s->streams[s->n_streams].n_features = n_readers;
            s->streams[s->n_streams].on_disk = dynamic_config_of_table(o, t)->storage != NULL;
            s->streams[s->n_streams].oov = dynamic_config_of_table(o, t)->oov;
            s->streams[s->n_streams].cold = dynamic_config_of_table(o, t)->n_cold > 0;
        }
        s->n_streams++;
    }
    return RK_OK;
}

static bool rank_holds_shard(const rk_sharded *s, int32_t rank, int32_t shard) {
    int32_t owner = s->shards[shard].owner;
    return owner < 0 ? rank < s->roles.n_trainers : owner == rank;
}

static rk_status list_streams_of_ranks(rk_sharded *s) {
    RK_TRY(
        RK_ALLOC_ALL(RK_ARRAY((size_t)s->size, s->streams_of), RK_ARRAY((size_t)s->size, s->n_streams_of)));
    for (int32_t r = 0; r < s->size; r++) {
        RK_TRY(rk_alloc((size_t)s->n_streams, sizeof **s->streams_of, &s->streams_of[r]));
        for (int32_t i = 0; i < s->n_streams; i++)
            if (rank_holds_shard(s, r, s->streams[i].shard)) s->streams_of[r][s->n_streams_of[r]++] = i;
    }
    return RK_OK;
}

/* All tables and features, without rows. */
static rk_status create_trainer_tables(rk_sharded *s, const rk_sharded_options *o) {
    const rk_embeddings_config *c = o->config;
    RK_AUTOFREE rk_table_part *parts = NULL;
    RK_TRY(rk_alloc((size_t)c->n_tables, sizeof *parts, &parts));
    for (int32_t t = 0; t < c->n_tables; t++)
        parts[t] =
            (rk_table_part){.n_rows = c->tables[t].n_rows,
                            .dim = c->tables[t].dim,
                            .absent = true,
                            .dynamic = dynamic_config_of_table(o, t),
                            .unplanned = o->placements[t].owner_pooling && !o->placements[t].replicated};
    RK_TRY(rk_embeddings_create_with_parts(c, parts, &s->trainer_tables));
    for (int32_t f = 0; f < c->n_features; f++)
        rk_embeddings_set_micro_batches(
            s->trainer_tables, f,
            (rk_micro_batches){(uint32_t)o->first_micro_batches[s->rank], o->micro_batch_samples});
    return RK_OK;
}

typedef struct store_config {
    rk_table_config *tables;
    rk_table_part *parts;
    rk_feature_config *features;
    char (*names)[96]; /* of features, for messages */
    char (*table_names)[24];
    int32_t n_tables, n_features;
} store_config;

static void release_store_config(store_config *c) {
    RK_FREE_ALL(c->tables, c->parts, c->features, c->names, c->table_names);
}

static int32_t count_local_shards(const rk_sharded *s, int32_t table) {
    int32_t n = 0;
    for (int32_t h = 0; h < s->n_shards; h++)
        n += s->shards[h].table == table && rank_holds_shard(s, s->rank, h);
    return n;
}

static void describe_local_shards(rk_sharded *s, const rk_sharded_options *o, store_config *c) {
    for (int32_t h = 0; h < s->n_shards; h++) {
        rk_table_shard *shard = &s->shards[h];
        if (!rank_holds_shard(s, s->rank, h)) continue;
        const rk_table_config *table = &o->config->tables[shard->table];
        shard->stored = c->n_tables++;
        snprintf(c->table_names[shard->stored], sizeof *c->table_names, "%d", h);
        c->tables[shard->stored] = *table;
        c->tables[shard->stored].name = c->table_names[shard->stored];
        c->tables[shard->stored].n_rows = shard->n_rows;
        c->tables[shard->stored].dim = shard->dim;
        c->parts[shard->stored] = (rk_table_part){.name = s->names[shard->table],
                                                  .n_rows = table->n_rows,
                                                  .dim = table->dim,
                                                  .n_parts = shard->n_parts,
                                                  .part = shard->part,
                                                  .dynamic = dynamic_config_of_table(o, shard->table),
                                                  .n_here = count_local_shards(s, shard->table),
                                                  .first_column = shard->first_column};
    }
}

static void describe_local_features(const rk_sharded *s, const rk_sharded_options *o, store_config *c) {
    for (int32_t r = 0; r < s->roles.n_trainers; r++)
        for (int32_t i = 0; i < rk_sharded_n_local_streams(s); i++) {
            const rk_table_shard_stream *stream = &s->streams[s->streams_of[s->rank][i]];
            int32_t f = c->n_features++;
            snprintf(c->names[f], sizeof *c->names, "%.48s, stream %d of rank %d",
                     s->names[s->shards[stream->shard].table], i, r);
            c->features[f] = (rk_feature_config)RK_FEATURE_CONFIG_INIT;
            c->features[f].name = c->names[f];
            c->features[f].table = c->table_names[s->shards[stream->shard].stored];
            c->features[f].combiner =
                stream->feature < 0 ? RK_COMBINER_SUM : o->config->features[stream->feature].combiner;
            c->features[f].skip_validation = true;
        }
}

/* The shards that are here, of which there may be none, and a feature for each trainer and stream to them. */
static rk_status create_local_tables(rk_sharded *s, const rk_sharded_options *o) {
    store_config c = {0};
    size_t n_features = (size_t)s->roles.n_trainers * (size_t)rk_sharded_n_local_streams(s);
    rk_status status;
    RK_GOTO(RK_ALLOC_ALL(RK_ARRAY((size_t)s->n_shards, c.tables), RK_ARRAY((size_t)s->n_shards, c.parts),
                         RK_ARRAY((size_t)s->n_shards, c.table_names), RK_ARRAY(n_features, c.features),
                         RK_ARRAY(n_features, c.names)));
    describe_local_shards(s, o, &c);
    describe_local_features(s, o, &c);
    rk_embeddings_config config = *o->config;
    config.tables = c.tables;
    config.n_tables = c.n_tables;
    config.features = c.features;
    config.n_features = c.n_features;
    RK_GOTO(rk_embeddings_create_with_parts(&config, c.parts, &s->store));
    s->store->takes_rows = true; /* once the keys that came have them */
    for (int32_t r = 0; r < s->roles.n_trainers; r++)
        for (int32_t i = 0; i < rk_sharded_n_local_streams(s); i++) {
            bool bags = s->streams[s->streams_of[s->rank][i]].feature >= 0;
            rk_embeddings_set_micro_batches(
                s->store, rk_sharded_stored_feature(s, r, i),
                (rk_micro_batches){(uint32_t)o->first_micro_batches[r], bags ? o->micro_batch_samples : 0});
        }
done:
    release_store_config(&c);
    return status;
}

rk_status rk_in_flight_batch_init(const rk_sharded *s, rk_in_flight_batch *j) {
    size_t n_tables = (size_t)s->n_tables,
           n_stored = (size_t)s->roles.n_trainers * (size_t)rk_sharded_n_local_streams(s),
           size = (size_t)s->size;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n_tables, j->unique), RK_ARRAY(size, j->ask), RK_ARRAY(size, j->answer),
                        RK_ARRAY(size, j->give), RK_ARRAY(n_stored, j->local), RK_ARRAY(n_stored, j->offsets),
                        RK_ARRAY(n_stored, j->stored_ids), RK_ARRAY(n_stored, j->counts),
                        RK_ARRAY(n_stored, j->uses), RK_ARRAY(n_stored, j->n_first),
                        RK_ARRAY(n_stored, j->ahead)));
    if (!s->trains) return RK_OK;
    size_t n_features = (size_t)s->trainer_tables->n_features;
    for (int32_t h = 0; h < s->n_shards; h++) {
        rk_unique_rows *w = &j->unique[s->shards[h].table];
        if (w->begins) continue; /* another shard's, in as many parts */
        RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)s->shards[h].n_parts + 2, w->begins),
                            RK_ARRAY(n_features + 1, w->bag_begins),
                            RK_ARRAY((size_t)s->shards[h].n_parts * n_features, w->n_first)));
    }
    return rk_batch_context_init(&j->batch_context, n_tables, n_features);
}

void rk_in_flight_batch_release(const rk_sharded *s, rk_in_flight_batch *j) {
    size_t n_stored =
        s->n_streams_of ? (size_t)s->roles.n_trainers * (size_t)rk_sharded_n_local_streams(s) : 0;
    rk_all_to_all *all_to_alls[] = {j->ids, j->rows, j->gradients,
                                    j->step_status}; /* before what they send */
    for (int i = 0; i < 4; i++) rk_all_to_all_free(all_to_alls[i]);
    for (int32_t t = 0; t < s->n_tables && j->unique; t++) {
        rk_unique_rows *w = &j->unique[t];
        RK_FREE_ALL(w->begins, w->bag_begins, w->n_first);
        rk_scratch_buffer *buffers[] = {&w->rows,    &w->uses,  &w->absent, &w->cold_rows,
                                        &w->targets, &w->order, &w->values};
        for (int i = 0; i < 7; i++) rk_scratch_buffer_release(buffers[i]);
        rk_unique_keys_release(&w->cold);
    }
    for (int32_t r = 0; r < s->size; r++) {
        if (j->ask) rk_scratch_buffer_release(&j->ask[r]);
        if (j->answer) rk_scratch_buffer_release(&j->answer[r]);
        if (j->give) rk_scratch_buffer_release(&j->give[r]);
    }
    for (size_t f = 0; f < n_stored; f++) {
        if (j->local) rk_scratch_buffer_release(&j->local[f]);
        if (j->offsets) rk_scratch_buffer_release(&j->offsets[f]);
        if (j->uses) rk_scratch_buffer_release(&j->uses[f]);
        if (j->n_first) rk_scratch_buffer_release(&j->n_first[f]);
    }
    RK_FREE_ALL(j->unique, j->ask, j->answer, j->give, j->local, j->offsets, j->stored_ids, j->counts,
                j->uses, j->n_first, j->ahead);
    if (s->trainer_tables)
        rk_batch_context_release(&j->batch_context, s->trainer_tables->n_tables,
                                 s->trainer_tables->n_features);
}

/* Those of a dynamic table come by features, and of each by trainers: the order of the batch. */
static rk_status allocate_key_uses(rk_sharded *s) {
    size_t n = 0, n_tables = (size_t)s->store->n_tables;
    for (int32_t i = 0; i < rk_sharded_n_local_streams(s); i++)
        n += (size_t)s->roles.n_trainers * (size_t)s->streams[s->streams_of[s->rank][i]].n_features;
    s->keys.n_tables = s->n_dynamic;
    return RK_ALLOC_ALL(RK_ARRAY(n, s->key_uses), RK_ARRAY(n_tables + 1, s->key_begins),
                        RK_ARRAY(n_tables + 1, s->key_task_begins));
}

/* Of tables with rows on a disk. */
static rk_status allocate_prefetch_keys(rk_sharded *s) {
    RK_TRY(rk_alloc((size_t)s->n_tables, sizeof *s->ahead, &s->ahead));
    for (int32_t i = 0; i < s->n_streams; i++) {
        const rk_table_shard *shard = &s->shards[s->streams[i].shard];
        rk_prefetch_keys *a = &s->ahead[shard->table];
        if (!s->streams[i].on_disk || a->n_parts) continue;
        RK_TRY(rk_alloc((size_t)shard->n_parts + 2, sizeof *a->begins, &a->begins));
        a->n_parts = shard->n_parts;
    }
    return RK_OK;
}

static void free_prefetch_keys(rk_sharded *s) {
    for (int32_t t = 0; t < s->n_tables && s->ahead; t++) {
        rk_unique_keys_release(&s->ahead[t].different);
        rk_key_list_release(&s->ahead[t].uses);
        rk_free(s->ahead[t].begins);
    }
    rk_free(s->ahead);
}

static rk_status allocate_message_arrays(rk_sharded *s) {
    size_t n_stored = (size_t)s->roles.n_trainers * (size_t)rk_sharded_n_local_streams(s),
           size = (size_t)s->size;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(size, s->messages), RK_ARRAY(size, s->answers),
                        RK_ARRAY(n_stored, s->activations), RK_ARRAY(n_stored, s->scratch),
                        RK_ARRAY(n_stored, s->asked), RK_ARRAY(n_stored, s->asked_ids)));
    RK_TRY(allocate_key_uses(s));
    if (s->trains) RK_TRY(allocate_prefetch_keys(s));
    s->n_in_flight_batches = (size_t)s->staleness + 2;
    RK_TRY(rk_alloc(s->n_in_flight_batches, sizeof *s->in_flight_batches, &s->in_flight_batches));
    for (size_t i = 0; i < s->n_in_flight_batches; i++)
        RK_TRY(rk_in_flight_batch_init(s, &s->in_flight_batches[i]));
    return RK_OK;
}

static rk_status set_rank_masks(rk_sharded *s) {
    size_t size = (size_t)s->size;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(size, s->trainers), RK_ARRAY(size, s->owners), RK_ARRAY(size, s->nobody),
                        RK_ARRAY(size, s->servers), RK_ARRAY(size, s->first)));
    for (int32_t r = 0; r < s->size; r++) {
        s->trainers[r] = r < s->roles.n_trainers;
        s->servers[r] = !s->trainers[r];
        s->owners[r] = s->n_streams_of[r] > 0 || s->servers[r];
        s->first[r] = r == 0;
    }
    s->trains = s->trainers[s->rank];
    s->owns = s->owners[s->rank];
    return RK_OK;
}

static rk_status copy_table_names(rk_sharded *s, const rk_embeddings_config *c) {
    RK_TRY(rk_alloc((size_t)c->n_tables, sizeof *s->names, &s->names));
    for (int32_t t = 0; t < c->n_tables; t++, s->n_tables++)
        RK_TRY(rk_strdup(c->tables[t].name, &s->names[t]));
    return RK_OK;
}

static rk_status init_sharded_store(rk_sharded *s, const rk_sharded_options *o) {
    RK_FAIL_IF(s->size != s->roles.n_trainers + s->roles.n_owners || s->roles.n_trainers < 1,
               RK_INVALID_ARGUMENT, "%d ranks do not match %d trainers and %d embedding servers", s->size,
               s->roles.n_trainers, s->roles.n_owners);
    RK_FAIL_IF(o->staleness < 0, RK_INVALID_ARGUMENT, "staleness must be 0 or more, not %lld",
               (long long)o->staleness);
    RK_TRY(copy_table_names(s, o->config));
    RK_TRY(add_shards(s, o));
    RK_TRY(add_streams_of_features(s, o));
    RK_TRY(list_streams_of_ranks(s));
    RK_TRY(set_rank_masks(s));
    if (s->trains) RK_TRY(create_trainer_tables(s, o));
    RK_TRY(create_local_tables(s, o));
    s->before_images = (rk_row_before_images){.embeddings = s->store, .staleness = s->staleness};
    RK_TRY(allocate_message_arrays(s));
    return s->staleness && s->trains ? rk_sharded_start_comm_thread(s) : RK_OK;
}

rk_status rk_sharded_create(const rk_sharded_options *o, rk_sharded **out) {
    rk_sharded *s;
    RK_TRY(rk_alloc(1, sizeof *s, &s));
    *s = (rk_sharded){.as_store.ops = &rk_sharded_ops,
                      .comm = o->comm,
                      .roles = o->roles,
                      .rank = rk_comm_rank(o->comm),
                      .size = rk_comm_size(o->comm),
                      .micro_batch_samples = o->micro_batch_samples,
                      .staleness = o->staleness,
                      .timestamp = RK_NO_TIMESTAMP};
    rk_status status = init_sharded_store(s, o);
    if (status == RK_OK)
        *out = s;
    else
        rk_sharded_free(&s->as_store);
    return status;
}

void rk_sharded_free(rk_store *store) {
    rk_sharded *s = (rk_sharded *)store;
    rk_sharded_stop_comm_thread(s);
    for (size_t i = 0; i < s->n_in_flight_batches && s->in_flight_batches; i++)
        rk_in_flight_batch_release(s, &s->in_flight_batches[i]);
    size_t n_stored =
        s->n_streams_of ? (size_t)s->roles.n_trainers * (size_t)rk_sharded_n_local_streams(s) : 0;
    for (size_t f = 0; f < n_stored && s->scratch; f++) rk_scratch_buffer_release(&s->scratch[f]);
    for (int32_t r = 0; r < s->size && s->streams_of; r++) rk_free(s->streams_of[r]);
    free_prefetch_keys(s);
    rk_embeddings_free(s->trainer_tables);
    rk_row_before_images_release(&s->before_images);
    rk_embeddings_free(s->store); /* whose parts of tables have these names */
    for (int32_t t = 0; t < s->n_tables; t++) rk_free(s->names[t]);
    RK_FREE_ALL(s->names, s->shards, s->streams, s->streams_of, s->n_streams_of, s->trainers, s->owners,
                s->nobody, s->servers, s->first, s->activations, s->scratch, s->asked, s->asked_ids,
                s->messages, s->answers, s->in_flight_batches, s->key_uses, s->key_begins,
                s->key_task_begins);
    rk_free(s);
}
