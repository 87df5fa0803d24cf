/* Rows of the batch to come, which are read while the one at hand is trained on. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "embedding/tiered/row_tier.h"

enum { THREADS = 2 /* one, and who waits for it */ };

static int by_number(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Where the keys' rows are on the disk: ascending, and each once. Keys become rows. */
static rk_status find_places(rk_row_tier *t) {
    rk_rows_ahead *a = &t->ahead;
    size_t n = 0;
    RK_TRY(rk_reserve(&a->places, &a->places_capacity, a->n_keys, sizeof *a->places));
    (void)rk_dynamic_look_up(t->table,
                             &(rk_key_uses){.keys = a->keys, .rows = a->keys, .n = (int64_t)a->n_keys});
    for (size_t i = 0; i < a->n_keys; i++) {
        uint64_t where = t->where[a->keys[i]];
        if (where & RK_TIER_ON_DISK) a->places[n++] = where & ~RK_TIER_ON_DISK;
    }
    if (n) qsort(a->places, n, sizeof *a->places, by_number);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || a->places[i] != a->places[a->n - 1]) a->places[a->n++] = a->places[i];
    return RK_OK;
}

static rk_status read_places(rk_row_tier *t) {
    rk_rows_ahead *a = &t->ahead;
    RK_TRY(find_places(t));
    RK_TRY(rk_reserve(&a->records, &a->records_capacity, a->n * t->record_bytes, 1));
    return rk_log_reader_read(t->reader, a->n, a->places, a->records);
}

/* What fails here is read again by the batch that needs it, whose error it then is. */
static void read_ahead(void *context, size_t task) {
    (void)task;
    rk_row_tier *t = context;
    t->ahead.n = 0;
    if (read_places(t) != RK_OK) t->ahead.n = 0;
}

rk_status rk_row_tier_foresee(rk_row_tier *t, const int64_t *keys, size_t n) {
    rk_rows_ahead *a = &t->ahead;
    if (a->is_reading) rk_row_tier_finish_reading(t);
    RK_TRY(rk_reserve(&a->keys, &a->keys_capacity, a->n_keys + n, sizeof *a->keys));
    if (n) memcpy(a->keys + a->n_keys, keys, n * sizeof *keys);
    a->n_keys += n;
    return RK_OK;
}

rk_status rk_row_tier_start_reading(rk_row_tier *t) {
    rk_rows_ahead *a = &t->ahead;
    if (!a->pool) RK_TRY(rk_worker_pool_create(THREADS, 1, read_ahead, t, &a->pool));
    rk_worker_pool_start(a->pool, 0);
    a->is_reading = true;
    return RK_OK;
}

void rk_row_tier_finish_reading(rk_row_tier *t) {
    rk_rows_ahead *a = &t->ahead;
    if (a->is_reading) rk_worker_pool_finish(a->pool, 0);
    a->is_reading = false;
    a->n_keys = 0;
}

const uint8_t *rk_row_tier_record_ahead(const rk_row_tier *t, uint64_t place) {
    const rk_rows_ahead *a = &t->ahead;
    const uint64_t *found = a->n ? bsearch(&place, a->places, a->n, sizeof *a->places, by_number) : NULL;
    return found ? a->records + (size_t)(found - a->places) * t->record_bytes : NULL;
}

void rk_row_tier_release_ahead(rk_row_tier *t) {
    rk_rows_ahead *a = &t->ahead;
    rk_row_tier_finish_reading(t);
    rk_worker_pool_free(a->pool);
    RK_FREE_ALL(a->keys, a->places, a->records);
    *a = (rk_rows_ahead){0};
}
