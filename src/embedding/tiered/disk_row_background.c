/* What is done beside a batch, by a thread of the tier's own: the log is compacted, and then rows of the
 * batch to come are read. */
#include <stdlib.h>

#include "base/integers.h"
#include "base/memory.h"
#include "embedding/tiered/disk_row_cache.h"

enum { THREADS = 2 /* one, and who waits for it */ };

static bool is_record_live(void *context, uint64_t place, const void *record) {
    const rk_disk_row_cache *t = context;
    int64_t row = rk_disk_row_cache_row_of_record(t, record);
    if (!row) return false;
    uint64_t where = rk_dynamic_read_where(t->table, row);
    return rk_disk_row_cache_is_in_memory(where) ? t->on_disk[where] == place
                                                 : rk_disk_row_cache_is_at(t, row, place);
}

/* Others may look meanwhile whether the row is in memory. */
static void update_moved_record(void *context, const void *record, uint64_t from, uint64_t to) {
    (void)from;
    rk_disk_row_cache *t = context;
    int64_t row = rk_disk_row_cache_row_of_record(t, record);
    uint64_t where = rk_dynamic_read_where(t->table, row);
    if (rk_disk_row_cache_is_in_memory(where))
        t->on_disk[where] = to;
    else
        rk_disk_row_cache_set_log_place(t, row, to);
}

rk_status rk_disk_row_cache_compact(rk_disk_row_cache *t) {
    rk_status status = rk_row_log_compact(t->log, &(rk_row_mover){t, is_record_live, update_moved_record});
    t->compact_failed = status != RK_OK;
    return status;
}

/* Where the keys' rows are on the disk: ascending, and each once. Keys become rows. */
static rk_status find_places(rk_disk_row_cache *t) {
    rk_row_prefetch *a = &t->ahead;
    int64_t *rows = a->keys.keys;
    size_t n = 0, n_keys = a->keys.n;
    RK_TRY(rk_reserve(&a->places, &a->places_capacity, n_keys, sizeof *a->places));
    (void)rk_dynamic_find_rows_of_uses(t->table,
                                       &(rk_key_uses){.keys = rows, .rows = rows, .n = (int64_t)n_keys});
    for (size_t i = 0; i < n_keys; i++) {
        if (rows[i] < t->table->n_shared) continue;
        uint64_t where = rk_dynamic_read_where(t->table, rows[i]);
        if (where & RK_TIER_ON_DISK) a->places[n++] = rk_disk_row_cache_log_place(t, where);
    }
    if (n) qsort(a->places, n, sizeof *a->places, rk_compare_u64);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || a->places[i] != a->places[a->n - 1]) a->places[a->n++] = a->places[i];
    return RK_OK;
}

static rk_status read_ahead(rk_disk_row_cache *t) {
    rk_row_prefetch *a = &t->ahead;
    RK_TRY(find_places(t));
    RK_TRY(rk_reserve(&a->records, &a->records_capacity, a->n * t->record_bytes, 1));
    return rk_row_log_reader_read_records(t->reader, a->n, a->places, a->records);
}

/* What fails here is tried again by the batch that begins next, whose error it then is. */
static void work(void *context, size_t task) {
    (void)task;
    rk_disk_row_cache *t = context;
    (void)rk_disk_row_cache_compact(t);
    t->ahead.n = 0;
    if (read_ahead(t) != RK_OK) t->ahead.n = 0;
}

rk_status rk_disk_row_cache_create_background(rk_disk_row_cache *t) {
    return rk_worker_pool_create(THREADS, 1, work, t, &t->background);
}

void rk_disk_row_cache_start_background(rk_disk_row_cache *t) {
    rk_worker_pool_start_task(t->background, 0);
    t->is_busy = true;
}

void rk_disk_row_cache_finish_background(rk_disk_row_cache *t) {
    if (!t->is_busy) return;
    rk_worker_pool_wait_for_task(t->background, 0);
    t->is_busy = false;
    t->ahead.keys.n = 0;
}

rk_key_list *rk_disk_row_cache_prefetch_keys(rk_disk_row_cache *t) {
    rk_disk_row_cache_finish_background(t);
    t->ahead.keys.n = 0;
    return &t->ahead.keys;
}

const uint8_t *rk_disk_row_cache_prefetched_record(const rk_disk_row_cache *t, uint64_t place) {
    const rk_row_prefetch *a = &t->ahead;
    const uint64_t *found = a->n ? bsearch(&place, a->places, a->n, sizeof *a->places, rk_compare_u64) : NULL;
    return found ? a->records + (size_t)(found - a->places) * t->record_bytes : NULL;
}

void rk_disk_row_cache_free_background(rk_disk_row_cache *t) {
    rk_worker_pool_free(t->background);
    rk_key_list_release(&t->ahead.keys);
    RK_FREE_ALL(t->ahead.places, t->ahead.records);
}
