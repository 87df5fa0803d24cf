#include "embedding/redis/redis_store.h"

#include "base/hash.h"
#include "base/memory.h"
#include "embedding/config/row_formats.h"
#include "embedding/local/collection_internal.h"

/* The different rows of a table that a batch uses, in the order in which they come. */
typedef struct batch_rows {
    int64_t *rows;   /* [n] of the table */
    int32_t *places; /* [n_places]: open addressing, numbers in `rows`; -1: free */
    char *bytes;     /* [n, row_bytes], as they are stored */
    float *values;   /* [n, dim], of rows of codes */
    size_t n, n_places, rows_capacity, places_capacity, bytes_capacity, values_capacity;
    rk_rows looked_up;
} batch_rows;

typedef struct redis_store {
    rk_store store;
    const rk_embeddings *embeddings;
    const rk_row_manifest *manifest;
    rk_redis_row_reader *reader;
    const atomic_bool *cancel; /* of wait; may be NULL */
    rk_batch_context batch;
    size_t *stored;           /* [n_tables]: their numbers in the manifest */
    batch_rows *tables;       /* [n_tables] */
    int64_t **ids;            /* [n_features]: a feature's ids as numbers in its table's `rows` */
    size_t *ids_capacity;     /* [n_features] */
    rk_row_request *requests; /* [n_tables] */
} redis_store;

static rk_status redis_begin(rk_store *store, int64_t n, const rk_ids *ids, bool training) {
    redis_store *s = (redis_store *)store;
    RK_FAIL_IF(training, RK_INVALID_ARGUMENT, "rows in Redis are only read");
    return rk_batch_context_prepare_bags(s->embeddings, &s->batch, n, NULL, ids, true);
}

static void clear_hash_table(batch_rows *t) {
    for (size_t i = 0; i < t->n_places; i++) t->places[i] = -1;
}

/* Room for n rows that may all be different. */
static rk_status reserve_and_clear_rows(batch_rows *t, size_t n) {
    size_t n_places = 16;
    while (n_places < 2 * n) n_places *= 2;
    RK_TRY(rk_reserve(&t->rows, &t->rows_capacity, n, sizeof *t->rows));
    RK_TRY(rk_reserve(&t->places, &t->places_capacity, n_places, sizeof *t->places));
    t->n = 0;
    t->n_places = n_places;
    clear_hash_table(t);
    return RK_OK;
}

static int32_t find_or_add_row(batch_rows *t, int64_t row) {
    size_t mask = t->n_places - 1, at = rk_hash_combine((uint64_t)row, 0) & mask;
    while (t->places[at] >= 0 && t->rows[t->places[at]] != row) at = (at + 1) & mask;
    if (t->places[at] < 0) {
        t->places[at] = (int32_t)t->n;
        t->rows[t->n++] = row;
    }
    return t->places[at];
}

static rk_status reserve_batch_rows(redis_store *s) {
    const rk_embeddings *e = s->embeddings;
    for (int32_t t = 0; t < e->n_tables; t++) {
        size_t n = 0;
        for (int32_t f = 0; f < e->n_features; f++)
            if (e->feature_tables[f] == t) n += (size_t)s->batch.uses[f].n_ids;
        RK_FAIL_IF(n > INT32_MAX / 2, RK_UNSUPPORTED, "table '%s': a batch has too many ids",
                   e->tables[t].config.name);
        RK_TRY(reserve_and_clear_rows(&s->tables[t], n));
    }
    return RK_OK;
}

static rk_status assign_row_numbers(redis_store *s, int32_t f) {
    rk_feature_bags *use = &s->batch.uses[f];
    batch_rows *table = &s->tables[s->embeddings->feature_tables[f]];
    RK_TRY(rk_reserve(&s->ids[f], &s->ids_capacity[f], (size_t)use->n_ids, sizeof *s->ids[f]));
    for (int64_t i = 0; i < use->n_ids; i++) s->ids[f][i] = find_or_add_row(table, use->ids[i]);
    use->ids = s->ids[f];
    return RK_OK;
}

static rk_status fetch_rows(redis_store *s) {
    for (int32_t t = 0; t < s->embeddings->n_tables; t++) {
        batch_rows *rows = &s->tables[t];
        const rk_stored_rows *stored = &s->manifest->tables[s->stored[t]];
        RK_TRY(rk_reserve(&rows->bytes, &rows->bytes_capacity, rows->n * (size_t)stored->row_bytes, 1));
        s->requests[t] =
            (rk_row_request){.table = s->stored[t], .rows = rows->rows, .n = rows->n, .out = rows->bytes};
    }
    return rk_redis_row_reader_read_rows(s->reader, s->requests, (size_t)s->embeddings->n_tables, s->cancel);
}

/* Codes are computed with in f32, as a model that has them in memory does. */
static rk_status decode_fetched_rows(batch_rows *rows, const rk_stored_rows *stored) {
    rows->looked_up =
        (rk_rows){.data = rows->bytes, .dtype = rk_row_format_dtype(stored->format), .dim = stored->dim};
    if (!rk_row_format_name(stored->format)) return RK_OK;
    RK_TRY(rk_reserve(&rows->values, &rows->values_capacity, rows->n * (size_t)stored->dim,
                      sizeof *rows->values));
    rk_row_format_decode(stored->format, rows->bytes, (int64_t)rows->n, stored->dim, rows->values);
    rows->looked_up.data = rows->values;
    rows->looked_up.dtype = RK_F32;
    return RK_OK;
}

static rk_status redis_wait(rk_store *store) {
    redis_store *s = (redis_store *)store;
    RK_TRY(reserve_batch_rows(s));
    for (int32_t f = 0; f < s->embeddings->n_features; f++) RK_TRY(assign_row_numbers(s, f));
    RK_TRY(fetch_rows(s));
    for (int32_t t = 0; t < s->embeddings->n_tables; t++)
        RK_TRY(decode_fetched_rows(&s->tables[t], &s->manifest->tables[s->stored[t]]));
    return RK_OK;
}

static void redis_set_cancel_flag(rk_store *store, const atomic_bool *cancel) {
    ((redis_store *)store)->cancel = cancel;
}

static void redis_lookup(const rk_store *store, bool training, int32_t f, int64_t first, int64_t last,
                         const rk_activation *to) {
    const redis_store *s = (const redis_store *)store;
    const rk_embeddings *e = s->embeddings;
    (void)training;
    (void)rk_feature_bags_lookup(&s->batch.uses[f], e->features[f].max_sequence_length,
                                 &s->tables[e->feature_tables[f]].looked_up, 0, first, last, *to);
}

static rk_status redis_end(rk_store *store, bool applies) {
    (void)store, (void)applies;
    return RK_OK;
}

static void free_store(rk_store *store) {
    redis_store *s = (redis_store *)store;
    const rk_embeddings *e = s->embeddings;
    for (int32_t t = 0; s->tables && t < e->n_tables; t++)
        RK_FREE_ALL(s->tables[t].rows, s->tables[t].places, s->tables[t].bytes, s->tables[t].values);
    for (int32_t f = 0; s->ids && f < e->n_features; f++) rk_free(s->ids[f]);
    rk_batch_context_release(&s->batch, e->n_tables, e->n_features);
    rk_redis_row_reader_free(s->reader);
    RK_FREE_ALL(s->stored, s->tables, s->ids, s->ids_capacity, s->requests, s);
}

static const rk_store_ops ops = {.free = free_store,
                                 .begin = redis_begin,
                                 .wait = redis_wait,
                                 .set_cancel_flag = redis_set_cancel_flag,
                                 .lookup = redis_lookup,
                                 .end = redis_end,
                                 .flush = rk_store_noop};

static rk_status match_tables_to_manifest(redis_store *s) {
    for (int32_t t = 0; t < s->embeddings->n_tables; t++) {
        const rk_table_config *config = &s->embeddings->tables[t].config;
        const rk_stored_rows *stored = rk_row_manifest_find(s->manifest, config->name);
        RK_FAIL_IF(!stored || stored->n_rows != config->n_rows || stored->dim != config->dim, RK_CONFIG,
                   "the rows in Redis have no table '%s' of %lld rows and dim %d", config->name,
                   (long long)config->n_rows, config->dim);
        s->stored[t] = (size_t)(stored - s->manifest->tables);
    }
    return RK_OK;
}

rk_status rk_redis_store_create(const rk_embeddings *e, rk_redis_row_source *rows, rk_store **out) {
    redis_store *s;
    size_t n_tables = (size_t)e->n_tables, n_features = (size_t)e->n_features;
    RK_TRY(rk_alloc(1, sizeof *s, &s));
    *s = (redis_store){.store = {&ops}, .embeddings = e, .manifest = rk_redis_row_source_manifest(rows)};
    rk_status status;
    RK_GOTO(rk_batch_context_init(&s->batch, n_tables, n_features));
    RK_GOTO(RK_ALLOC_ALL(RK_ARRAY(n_tables, s->stored), RK_ARRAY(n_tables, s->tables),
                         RK_ARRAY(n_features, s->ids), RK_ARRAY(n_features, s->ids_capacity),
                         RK_ARRAY(n_tables, s->requests)));
    RK_GOTO(match_tables_to_manifest(s));
    RK_GOTO(rk_redis_row_reader_create(rows, &s->reader));
    *out = &s->store;
    s = NULL;
done:
    if (s) free_store(&s->store);
    return status;
}
