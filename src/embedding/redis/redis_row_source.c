#include "embedding/redis/redis_row_source.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/thread/clock.h"
#include "embedding/redis/redis_client.h"
#include "embedding/redis/redis_store.h"
#include "embedding/redis/row_cache.h"

/* How long after a failure nobody waits for Redis again: those who queue behind it would be late too. */
static const uint64_t pause_us = 100000;

struct rk_redis_row_source {
    rk_row_source source;
    rk_redis_url url;
    rk_row_manifest manifest;
    rk_row_cache **caches; /* [manifest.n_tables] */
    double timeout;
    rk_redis_address_cache
        *addresses;   /* of all threads' connections; asked for anew by check_source_available */
    rk_redis *prober; /* for opening and checking */
    atomic_bool available;
    _Atomic uint64_t paused_until; /* rk_clock_us */
    _Atomic int64_t n_cached, n_fetched;
};

static rk_status fetch_manifest(rk_redis_row_source *r, const char *version) {
    rk_row_manifest named;
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    RK_TRY(rk_row_manifest_init(r->url.prefix, version, &named));
    const rk_redis_command get = {.verb = RK_REDIS_GET, .key = named.key, .number = -1, .text = &text};
    const rk_redis_limits limits = {.timeout = r->timeout};
    rk_status status = rk_redis_run_commands(r->prober, &get, 1, &limits);
    if (status == RK_OK && text.n_bytes == 0)
        status = rk_error(
            RK_NOT_FOUND,
            "Redis at %s:%d has no '%s'\nhint: the export of these rows has not ended, or they were removed",
            r->url.host, r->url.port, named.key);
    rk_row_manifest_release(&named);
    RK_TRY(status);
    rk_row_manifest_release(&r->manifest);
    return rk_row_manifest_parse(r->url.prefix, version, text.data, text.n_bytes, &r->manifest);
}

typedef struct table_size {
    size_t table, n_bytes;
} table_size;

static int compare_table_sizes(const void *a, const void *b) {
    size_t x = ((const table_size *)a)->n_bytes, y = ((const table_size *)b)->n_bytes;
    return (x > y) - (x < y);
}

/* Small tables are kept whole; the others share what is left equally. */
static rk_status create_row_caches(rk_redis_row_source *r, size_t n_bytes) {
    const rk_row_manifest *m = &r->manifest;
    RK_AUTOFREE table_size *sizes = NULL;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(m->n_tables, r->caches), RK_ARRAY(m->n_tables, sizes)));
    for (size_t t = 0; t < m->n_tables; t++)
        sizes[t] = (table_size){t, rk_row_cache_bytes(m->tables[t].n_rows, (size_t)m->tables[t].row_bytes)};
    qsort(sizes, m->n_tables, sizeof *sizes, compare_table_sizes);
    for (size_t i = 0; i < m->n_tables; i++) {
        const rk_stored_rows *t = &m->tables[sizes[i].table];
        size_t share = n_bytes / (m->n_tables - i);
        if (share > sizes[i].n_bytes) share = sizes[i].n_bytes;
        RK_TRY(rk_row_cache_create(share, t->n_rows, (size_t)t->row_bytes, &r->caches[sizes[i].table]));
        n_bytes -= share;
    }
    return RK_OK;
}

static rk_status open_row_source(rk_redis_row_source *r, const rk_redis_row_source_options *o) {
    RK_TRY(rk_redis_url_parse(o->url, &r->url));
    RK_TRY(rk_redis_address_cache_create(&r->addresses));
    RK_TRY(rk_redis_create(&r->url, r->addresses, &r->prober));
    RK_TRY(fetch_manifest(r, o->version));
    return create_row_caches(r, o->cache_bytes);
}

static void free_row_source(rk_row_source *source) {
    rk_redis_row_source *r = (rk_redis_row_source *)source;
    for (size_t t = 0; r->caches && t < r->manifest.n_tables; t++) rk_row_cache_free(r->caches[t]);
    rk_redis_free(r->prober);
    rk_redis_address_cache_free(r->addresses);
    rk_row_manifest_release(&r->manifest);
    rk_redis_url_release(&r->url);
    RK_FREE_ALL(r->caches, r);
}

static rk_status create_store(rk_row_source *source, const rk_embeddings *embeddings, rk_store **out) {
    return rk_redis_store_create(embeddings, (rk_redis_row_source *)source, out);
}

static bool is_source_available(const rk_row_source *source) {
    return atomic_load(&((const rk_redis_row_source *)source)->available);
}

static void count_cached_and_fetched(const rk_row_source *source, int64_t *n_cached, int64_t *n_fetched) {
    const rk_redis_row_source *r = (const rk_redis_row_source *)source;
    *n_cached = atomic_load(&r->n_cached);
    *n_fetched = atomic_load(&r->n_fetched);
}

/* All nodes answer, and the manifest is there. */
static rk_status check_source_available(rk_row_source *source) {
    rk_redis_row_source *r = (rk_redis_row_source *)source;
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    const rk_redis_command get = {.verb = RK_REDIS_GET, .key = r->manifest.key, .number = -1, .text = &text};
    const rk_redis_limits limits = {.timeout = r->timeout};
    if (!atomic_load(&r->available)) rk_redis_address_cache_refresh(r->addresses);
    rk_status status = rk_redis_ping(r->prober, &limits);
    if (status == RK_OK) status = rk_redis_run_commands(r->prober, &get, 1, &limits);
    if (status == RK_OK && text.n_bytes == 0)
        status = rk_error(RK_UNAVAILABLE, "Redis at %s:%d has no '%s' any more", r->url.host, r->url.port,
                          get.key);
    atomic_store(&r->available, status == RK_OK);
    if (status == RK_OK) atomic_store(&r->paused_until, 0);
    return status;
}

rk_status rk_redis_row_source_open(const rk_redis_row_source_options *o, rk_row_source **out) {
    static const rk_row_source_ops ops = {.free = free_row_source,
                                          .create_store = create_store,
                                          .is_available = is_source_available,
                                          .check = check_source_available,
                                          .count = count_cached_and_fetched};
    rk_redis_row_source *r;
    RK_TRY(rk_alloc(1, sizeof *r, &r));
    r->source.ops = &ops;
    r->timeout = o->timeout;
    atomic_init(&r->available, true);
    rk_status status = open_row_source(r, o);
    if (status == RK_OK)
        *out = &r->source;
    else
        free_row_source(&r->source);
    return status;
}

const rk_row_manifest *rk_redis_row_source_manifest(const rk_redis_row_source *r) {
    return &r->manifest;
}

struct rk_redis_row_reader {
    rk_redis_row_source *rows;
    rk_redis *redis;
    rk_redis_command *missing; /* [n_missing]: rows that no cache has */
    struct missing_row {
        rk_row_cache *cache;
        int64_t row;
    } * missing_rows; /* [n_missing] */
    size_t n_missing, missing_capacity, rows_capacity;
};

rk_status rk_redis_row_reader_create(rk_redis_row_source *rows, rk_redis_row_reader **out) {
    rk_redis_row_reader *reader;
    RK_TRY(rk_alloc(1, sizeof *reader, &reader));
    reader->rows = rows;
    rk_status status = rk_redis_create(&rows->url, rows->addresses, &reader->redis);
    if (status == RK_OK)
        *out = reader;
    else
        rk_redis_row_reader_free(reader);
    return status;
}

void rk_redis_row_reader_free(rk_redis_row_reader *reader) {
    if (!reader) return;
    rk_redis_free(reader->redis);
    RK_FREE_ALL(reader->missing, reader->missing_rows, reader);
}

static rk_status add_missing_row(rk_redis_row_reader *reader, const rk_stored_rows *t, rk_row_cache *cache,
                                 int64_t row, char *out) {
    RK_TRY(rk_reserve_one_more(&reader->missing, reader->n_missing, &reader->missing_capacity,
                               sizeof *reader->missing));
    RK_TRY(rk_reserve_one_more(&reader->missing_rows, reader->n_missing, &reader->rows_capacity,
                               sizeof *reader->missing_rows));
    reader->missing[reader->n_missing] = (rk_redis_command){.verb = RK_REDIS_GET_RANGE,
                                                            .key = t->key,
                                                            .number = row / t->block_rows,
                                                            .first = row % t->block_rows * t->row_bytes,
                                                            .n_bytes = t->row_bytes,
                                                            .out = out};
    reader->missing_rows[reader->n_missing++] = (struct missing_row){cache, row};
    return RK_OK;
}

static rk_status read_from_cache(rk_redis_row_reader *reader, const rk_row_request *request) {
    const rk_stored_rows *t = &reader->rows->manifest.tables[request->table];
    rk_row_cache *cache = reader->rows->caches[request->table];
    for (size_t i = 0; i < request->n; i++) {
        char *out = request->out + i * (size_t)t->row_bytes;
        if (!rk_row_cache_get(cache, request->rows[i], out))
            RK_TRY(add_missing_row(reader, t, cache, request->rows[i], out));
    }
    return RK_OK;
}

static rk_status fetch_missing_rows(rk_redis_row_reader *reader, const atomic_bool *cancel) {
    rk_redis_row_source *r = reader->rows;
    RK_FAIL_IF(rk_clock_us() < atomic_load(&r->paused_until), RK_UNAVAILABLE,
               "rows could not be read from Redis at %s:%d a moment ago", r->url.host, r->url.port);
    const rk_redis_limits limits = {r->timeout, cancel};
    rk_status status = rk_redis_run_commands(reader->redis, reader->missing, reader->n_missing, &limits);
    if (status == RK_UNAVAILABLE) {
        atomic_store(&r->available, false);
        atomic_store(&r->paused_until, rk_clock_us() + pause_us);
    }
    RK_TRY(status);
    for (size_t i = 0; i < reader->n_missing; i++)
        rk_row_cache_put(reader->missing_rows[i].cache, reader->missing_rows[i].row, reader->missing[i].out);
    return RK_OK;
}

rk_status rk_redis_row_reader_read_rows(rk_redis_row_reader *reader, const rk_row_request *requests, size_t n,
                                        const atomic_bool *cancel) {
    int64_t n_rows = 0, n_missing;
    reader->n_missing = 0;
    for (size_t i = 0; i < n; i++) {
        RK_TRY(read_from_cache(reader, &requests[i]));
        n_rows += (int64_t)requests[i].n;
    }
    n_missing = (int64_t)reader->n_missing;
    if (n_missing) RK_TRY(fetch_missing_rows(reader, cancel));
    atomic_fetch_add(&reader->rows->n_cached, n_rows - n_missing);
    atomic_fetch_add(&reader->rows->n_fetched, n_missing);
    return RK_OK;
}
