/* Rows of the batch to come, which are read while the one at hand is trained on. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "embedding/tiered/disk_row_cache.h"

enum { THREADS = 2 /* one, and who waits for it */ };

static int compare_places(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Where the keys' rows are on the disk: ascending, and each once. Keys become rows. */
static rk_status find_places_to_prefetch(rk_disk_row_cache *t) {
    rk_row_prefetch *a = &t->ahead;
    size_t n = 0;
    RK_TRY(rk_reserve(&a->places, &a->places_capacity, a->n_keys, sizeof *a->places));
    (void)rk_dynamic_find_rows_of_uses(
        t->table, &(rk_key_uses){.keys = a->keys, .rows = a->keys, .n = (int64_t)a->n_keys});
    for (size_t i = 0; i < a->n_keys; i++) {
        uint64_t where = t->where[a->keys[i]];
        if (where & RK_TIER_ON_DISK) a->places[n++] = where & ~RK_TIER_ON_DISK;
    }
    if (n) qsort(a->places, n, sizeof *a->places, compare_places);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || a->places[i] != a->places[a->n - 1]) a->places[a->n++] = a->places[i];
    return RK_OK;
}

static rk_status read_prefetched_records(rk_disk_row_cache *t) {
    rk_row_prefetch *a = &t->ahead;
    RK_TRY(find_places_to_prefetch(t));
    RK_TRY(rk_reserve(&a->records, &a->records_capacity, a->n * t->record_bytes, 1));
    return rk_row_log_reader_read_records(t->reader, a->n, a->places, a->records);
}

/* What fails here is read again by the batch that needs it, whose error it then is. */
static void run_prefetch(void *context, size_t task) {
    (void)task;
    rk_disk_row_cache *t = context;
    t->ahead.n = 0;
    if (read_prefetched_records(t) != RK_OK) t->ahead.n = 0;
}

rk_status rk_disk_row_cache_add_prefetch_keys(rk_disk_row_cache *t, const int64_t *keys, size_t n) {
    rk_row_prefetch *a = &t->ahead;
    if (a->is_reading) rk_disk_row_cache_finish_prefetch(t);
    RK_TRY(rk_reserve(&a->keys, &a->keys_capacity, a->n_keys + n, sizeof *a->keys));
    if (n) memcpy(a->keys + a->n_keys, keys, n * sizeof *keys);
    a->n_keys += n;
    return RK_OK;
}

rk_status rk_disk_row_cache_start_prefetch(rk_disk_row_cache *t) {
    rk_row_prefetch *a = &t->ahead;
    if (!a->pool) RK_TRY(rk_worker_pool_create(THREADS, 1, run_prefetch, t, &a->pool));
    rk_worker_pool_start(a->pool, 0);
    a->is_reading = true;
    return RK_OK;
}

void rk_disk_row_cache_finish_prefetch(rk_disk_row_cache *t) {
    rk_row_prefetch *a = &t->ahead;
    if (a->is_reading) rk_worker_pool_finish(a->pool, 0);
    a->is_reading = false;
    a->n_keys = 0;
}

const uint8_t *rk_disk_row_cache_prefetched_record(const rk_disk_row_cache *t, uint64_t place) {
    const rk_row_prefetch *a = &t->ahead;
    const uint64_t *found = a->n ? bsearch(&place, a->places, a->n, sizeof *a->places, compare_places) : NULL;
    return found ? a->records + (size_t)(found - a->places) * t->record_bytes : NULL;
}

void rk_disk_row_cache_release_prefetch(rk_disk_row_cache *t) {
    rk_row_prefetch *a = &t->ahead;
    rk_disk_row_cache_finish_prefetch(t);
    rk_worker_pool_free(a->pool);
    RK_FREE_ALL(a->keys, a->places, a->records);
    *a = (rk_row_prefetch){0};
}
