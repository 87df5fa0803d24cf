/* A dynamic table's keys as a checkpoint has them. */
#include <stdlib.h>
#include <string.h>

#include "base/integers.h"
#include "base/thread/parallel_failure.h"
#include "base/memory.h"
#include "base/thread/parallel.h"
#include "embedding/dynamic/dynamic_table.h"

bool rk_dynamic_key_comes_before(const rk_dynamic_table *t, int64_t a, int64_t b) {
    uint32_t x = rk_dynamic_bucket_of_key(&t->config, a), y = rk_dynamic_bucket_of_key(&t->config, b);
    return x != y ? x < y : (uint64_t)a < (uint64_t)b;
}

static bool row_key_comes_before(const rk_dynamic_table *t, int64_t a, int64_t b) {
    return rk_dynamic_key_comes_before(t, rk_dynamic_key_of_row(t, a), rk_dynamic_key_of_row(t, b));
}

void rk_dynamic_sort_by_key(const rk_dynamic_table *t, int64_t *rows, size_t n) {
    rk_dynamic_sort_rows(t, rows, n, row_key_comes_before);
}

/* Where each bucket's rows and candidates begin among all. */
typedef struct listing {
    rk_dynamic_table *table;
    int64_t *rows, *candidates; /* [n_buckets] */
} listing;

static void list_candidates_of_bucket(rk_dynamic_table *t, const rk_key_bucket *bucket, int64_t at) {
    int64_t n = 0, *keys = t->candidate_keys + at;
    for (uint32_t i = 0; i < bucket->counted_size; i++)
        if (bucket->uses[i]) keys[n++] = bucket->counted[i];
    qsort(keys, (size_t)n, sizeof *keys, rk_compare_u64);
    for (int64_t i = 0; i < n; i++)
        t->candidate_counts[at + i] = (int32_t)rk_key_bucket_read_count(bucket, keys[i]);
}

enum { BUCKETS_AT_ONCE = 16 /* a task */, LOADED_ROWS_A_TASK = 1024 };

static void list_keys_of_buckets(void *context, size_t task, int thread) {
    (void)thread;
    const listing *l = context;
    rk_dynamic_table *t = l->table;
    int64_t first = (int64_t)task * BUCKETS_AT_ONCE, last = first + BUCKETS_AT_ONCE;
    for (int64_t b = first; b < last && b < t->config.n_buckets; b++) {
        const rk_key_bucket *bucket = &t->buckets[b];
        if (bucket->n) {
            rk_dynamic_list_rows(t, (uint32_t)b, t->order + l->rows[b]);
            rk_dynamic_sort_rows(t, t->order + l->rows[b], bucket->n, rk_dynamic_row_has_smaller_key);
        }
        if (bucket->n_counted) list_candidates_of_bucket(t, bucket, l->candidates[b]);
    }
}

static rk_status reserve_candidate_arrays(rk_dynamic_table *t, int64_t n) {
    RK_TRY(rk_reserve(&t->candidate_keys, &t->candidate_keys_capacity, (size_t)n, sizeof *t->candidate_keys));
    return rk_reserve(&t->candidate_counts, &t->candidate_counts_capacity, (size_t)n,
                      sizeof *t->candidate_counts);
}

rk_status rk_dynamic_list_keys(rk_dynamic_table *t) {
    if (t->is_loading) return RK_OK;
    size_t n_buckets = (size_t)t->config.n_buckets;
    RK_AUTOFREE int64_t *rows = NULL, *candidates = NULL;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n_buckets, rows), RK_ARRAY(n_buckets, candidates)));
    int64_t n_rows = 0, n_candidates = 0;
    for (size_t b = 0; b < n_buckets; b++) {
        rows[b] = n_rows;
        candidates[b] = n_candidates;
        n_rows += t->buckets[b].n;
        n_candidates += t->buckets[b].n_counted;
    }
    RK_TRY(rk_reserve(&t->order, &t->order_capacity, (size_t)n_rows, sizeof *t->order));
    RK_TRY(reserve_candidate_arrays(t, n_candidates));
    t->n_candidates = n_candidates;
    listing l = {t, rows, candidates};
    rk_parallel_for(rk_block_count(n_buckets, BUCKETS_AT_ONCE), list_keys_of_buckets, &l);
    return RK_OK;
}

static void release_loaded_info(rk_dynamic_table *t) {
    rk_pages_free(t->info, t->info_bytes);
    t->info = NULL;
    t->info_bytes = 0;
    t->n_used = t->n_shared;
}

void rk_dynamic_begin_loading(rk_dynamic_table *t) {
    for (int64_t b = t->first_bucket; b < t->end_bucket; b++) {
        rk_key_bucket_clear(&t->buckets[b]);
        rk_key_bucket_clear_counts(&t->buckets[b]);
        if (t->disk_keys) rk_dynamic_clear_disk_rows(t, (uint32_t)b);
    }
    t->n_stale = 0;
    rk_key_bucket_clear_counts(&t->counts_over);
    if (t->disk_keys) release_loaded_info(t);
    t->n_keys = t->n_free = t->n_candidates = 0;
    t->n_used = t->n_shared;
    t->totals = (rk_dynamic_totals){0};
    rk_stream_clock_reset(&t->clock);
    rk_key_ranges *ranges[] = {&t->loaded, &t->loaded_candidates};
    for (int i = 0; i < 2; i++) ranges[i]->n = 0, ranges[i]->n_read = ranges[i]->total = 0;
    t->is_loading = true;
}

static bool is_local_key(const rk_dynamic_table *t, int64_t key) {
    int64_t bucket = rk_dynamic_bucket_of_key(&t->config, key);
    return bucket >= t->first_bucket && bucket < t->end_bucket;
}

bool rk_dynamic_has_row(const rk_dynamic_table *t, int64_t key) {
    return is_local_key(t, key) && rk_dynamic_find_row(t, key) != 0;
}

int64_t rk_dynamic_count_local_keys(const rk_dynamic_table *t, const int64_t *keys, int64_t n) {
    int64_t n_own = 0;
    for (int64_t i = 0; i < n; i++) n_own += is_local_key(t, keys[i]);
    return n_own;
}

/* Keys that belong here, which get rows or counts, dealt to buckets. */
typedef struct load {
    rk_dynamic_table *table;
    const int64_t *keys;
    int64_t n;
    const int64_t *own; /* [n] which of the keys; NULL: all */
    int64_t at;         /* the first one's row, or place among candidates */
    rk_status (*take)(const struct load *l, uint32_t bucket, int64_t key, int64_t at);
    rk_status (*reserve)(rk_dynamic_table *table, uint32_t bucket, uint32_t n_more);
    int64_t *begins; /* [n_buckets + 1] */
    int64_t *order;  /* [n] numbers of keys; NULL: they are in the order of buckets */
    rk_parallel_failure failure;
} load;

static int64_t loaded_key_at(const load *l, int64_t i) {
    return l->keys[l->own ? l->own[i] : i];
}

static uint32_t bucket_of_loaded_key(const load *l, int64_t i) {
    return rk_dynamic_bucket_of_key(&l->table->config, loaded_key_at(l, i));
}

/* Numbers of each bucket's keys, and whether buckets follow each other, as in what was written here. */
static bool count_keys_of_buckets(const load *l) {
    bool in_order = true;
    uint32_t last = 0;
    for (int64_t i = 0; i < l->n; i++) {
        uint32_t bucket = bucket_of_loaded_key(l, i);
        l->begins[bucket + 1]++;
        in_order &= bucket >= last;
        last = bucket;
    }
    for (int64_t b = 0; b < l->table->config.n_buckets; b++) l->begins[b + 1] += l->begins[b];
    return in_order;
}

static rk_status sort_keys_by_bucket(load *l) {
    RK_AUTOFREE int64_t *next = NULL;
    size_t n_buckets = (size_t)l->table->config.n_buckets;
    RK_TRY(rk_alloc(n_buckets + 1, sizeof *l->begins, &l->begins));
    if (count_keys_of_buckets(l)) return RK_OK;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)l->n, l->order), RK_ARRAY(n_buckets, next)));
    memcpy(next, l->begins, n_buckets * sizeof *next);
    for (int64_t i = 0; i < l->n; i++) l->order[next[bucket_of_loaded_key(l, i)]++] = i;
    return RK_OK;
}

static rk_status load_bucket(const load *l, uint32_t bucket, int64_t *at) {
    int64_t n = l->begins[bucket + 1] - l->begins[bucket];
    RK_FAIL_IF(n > INT32_MAX, RK_BAD_DATA, "one bucket has %lld keys", (long long)n);
    RK_TRY(l->reserve(l->table, bucket, (uint32_t)n));
    for (int64_t i = l->begins[bucket]; i < l->begins[bucket + 1]; i++) {
        *at = l->order ? l->order[i] : i;
        RK_TRY(l->take(l, bucket, loaded_key_at(l, *at), l->at + *at));
    }
    return RK_OK;
}

static void load_buckets(void *context, size_t task, int thread) {
    (void)thread;
    load *l = context;
    int64_t first = (int64_t)task * BUCKETS_AT_ONCE, last = first + BUCKETS_AT_ONCE;
    for (int64_t b = first; b < last && b < l->table->config.n_buckets; b++) {
        int64_t at = l->begins[b];
        rk_status status = l->begins[b + 1] > at ? load_bucket(l, (uint32_t)b, &at) : RK_OK;
        rk_parallel_failure_record(&l->failure, at, status);
        if (status != RK_OK) return;
    }
}

static rk_status load_keys_of_buckets(load *l) {
    rk_status status = sort_keys_by_bucket(l);
    if (status == RK_OK) {
        rk_parallel_for(rk_block_count((size_t)l->table->config.n_buckets, BUCKETS_AT_ONCE), load_buckets, l);
        status = rk_parallel_failure_status(&l->failure);
    }
    RK_FREE_ALL(l->begins, l->order);
    return status;
}

/* Which keys belong here, and their ranges; places are given in their order. */
static rk_status find_local_key_ranges(const rk_dynamic_table *t, rk_key_ranges *ranges, rk_key_range given,
                                       const int64_t *keys, int64_t *own) {
    int64_t n_own = 0;
    for (int64_t i = 0, last; i < given.n; i = last) {
        for (last = i; last < given.n && is_local_key(t, keys[last]); last++) own[n_own++] = last;
        if (last > i) {
            RK_TRY(rk_reserve_one_more(&ranges->list, ranges->n, &ranges->capacity, sizeof *ranges->list));
            ranges->list[ranges->n++] = (rk_key_range){given.first + i, last - i, given.at};
            given.at += last - i;
        } else {
            last++;
        }
    }
    return RK_OK;
}

/* l->n: of the given keys, those that belong here. */
static rk_status load_key_ranges(load *l, rk_key_ranges *ranges, rk_key_range given, int64_t total) {
    RK_AUTOFREE int64_t *own = NULL;
    RK_FAIL_IF(ranges->n_read && ranges->total != total, RK_BAD_DATA,
               "one part of it is of %lld keys, another one of %lld", (long long)ranges->total,
               (long long)total);
    ranges->total = total;
    ranges->n_read += given.n;
    if (l->n == 0) return RK_OK;
    if (l->n < given.n) {
        RK_TRY(rk_alloc((size_t)l->n, sizeof *own, &own));
        RK_TRY(find_local_key_ranges(l->table, ranges, given, l->keys, own));
        l->own = own;
    } else {
        RK_TRY(rk_reserve_one_more(&ranges->list, ranges->n, &ranges->capacity, sizeof *ranges->list));
        ranges->list[ranges->n++] = given;
    }
    return load_keys_of_buckets(l);
}

static rk_status duplicate_key_error(int64_t key) {
    return rk_error(RK_BAD_DATA, "the key %lld is there twice", (long long)key);
}

/* Of a row on a disk `row` is only where the rest of it is read to. */
static rk_status insert_loaded_key(const load *l, uint32_t bucket, int64_t key, int64_t row) {
    rk_dynamic_table *t = l->table;
    if (rk_dynamic_find_row(t, key)) return duplicate_key_error(key);
    t->info[row].key = key;
    if (t->disk_keys)
        (void)rk_dynamic_insert_disk_row(t, bucket, key, 1);
    else
        rk_key_bucket_insert(&t->buckets[bucket], key, row);
    return RK_OK;
}

static rk_status reserve_loaded_info(rk_dynamic_table *t, int64_t n_more) {
    return rk_pages_reserve(&t->info, &t->info_bytes, (size_t)(t->n_used + n_more) * sizeof *t->info);
}

static rk_status reserve_more_rows(rk_dynamic_table *t, uint32_t bucket, uint32_t n_more) {
    return rk_dynamic_reserve_bucket(t, bucket, t->buckets[bucket].n + n_more);
}

rk_status rk_dynamic_load_keys(rk_dynamic_table *t, int64_t first, int64_t total, const int64_t *keys,
                               int64_t n) {
    load l = {.table = t,
              .keys = keys,
              .n = rk_dynamic_count_local_keys(t, keys, n),
              .at = t->n_used,
              .take = insert_loaded_key,
              .reserve = reserve_more_rows,
              .failure = RK_FAILURE_INIT};
    rk_status status = t->disk_keys ? reserve_loaded_info(t, l.n) : RK_OK;
    if (status == RK_OK) status = load_key_ranges(&l, &t->loaded, (rk_key_range){first, n, t->n_used}, total);
    if (status != RK_OK) {
        rk_dynamic_begin_loading(t);
        return status;
    }
    t->n_keys += l.n;
    t->n_used += l.n;
    return RK_OK;
}

/* They have a count of 1 until theirs is read. */
static rk_status insert_loaded_candidate(const load *l, uint32_t bucket, int64_t key, int64_t at) {
    rk_dynamic_table *t = l->table;
    if (rk_key_bucket_read_count(&t->buckets[bucket], key)) return duplicate_key_error(key);
    rk_key_bucket_add_count(&t->buckets[bucket], key, 1);
    t->candidate_keys[at] = key;
    t->candidate_counts[at] = 1;
    return RK_OK;
}

static rk_status reserve_more_counts(rk_dynamic_table *t, uint32_t bucket, uint32_t n_more) {
    return rk_dynamic_reserve_counts(t, bucket, t->buckets[bucket].n_counted + n_more);
}

rk_status rk_dynamic_load_candidates(rk_dynamic_table *t, int64_t first, int64_t total, const int64_t *keys,
                                     int64_t n) {
    load l = {.table = t,
              .keys = keys,
              .n = rk_dynamic_count_local_keys(t, keys, n),
              .at = t->n_candidates,
              .take = insert_loaded_candidate,
              .reserve = reserve_more_counts,
              .failure = RK_FAILURE_INIT};
    RK_TRY(reserve_candidate_arrays(t, t->n_candidates + l.n));
    RK_TRY(load_key_ranges(&l, &t->loaded_candidates, (rk_key_range){first, n, t->n_candidates}, total));
    t->n_candidates += l.n;
    return RK_OK;
}

int64_t rk_dynamic_count_candidates(const rk_dynamic_table *t) {
    int64_t n = 0;
    for (int64_t b = t->first_bucket; b < t->end_bucket; b++) n += t->buckets[b].n_counted;
    return n;
}

static int64_t clamp_i64(int64_t value, int64_t least, int64_t most) {
    return value < least ? least : value > most ? most : value;
}

static uint64_t count_loaded_counts_over(const rk_dynamic_table *t) {
    uint64_t n = 0;
    for (int64_t row = t->n_shared; row < t->n_used; row++) n += t->info[row].count > UINT16_MAX;
    return n;
}

/* What was read of n rows, to where their keys are. */
static void take_loaded_disk_rows(rk_dynamic_table *t, const rk_key_info *info, int64_t n) {
    int64_t rows[LOADED_ROWS_A_TASK];
    for (int64_t i = 0; i < n; i++) rows[i] = info[i].key;
    (void)rk_dynamic_find_rows_of_uses(t, &(rk_key_uses){.keys = rows, .rows = rows, .n = n});
    for (int64_t i = 0; i < n; i++) {
        if (rows[i] < t->n_shared) continue;
        *rk_dynamic_last_batch(t, rows[i]) = info[i].last_batch;
        rk_dynamic_add_to_disk_row(t, rows[i], (uint32_t)info[i].count, false);
    }
}

static void check_loaded_rows(void *context, size_t task, int thread) {
    (void)thread;
    rk_dynamic_table *t = context;
    int64_t first = t->n_shared + (int64_t)task * LOADED_ROWS_A_TASK,
            n = rk_min_i64(LOADED_ROWS_A_TASK, t->n_used - first);
    rk_key_info *info = t->info + first;
    for (int64_t i = 0; i < n; i++) {
        info[i].last_batch = (int32_t)clamp_i64(info[i].last_batch, 1, t->n_batches - t->first_batch);
        if (info[i].count < 0) info[i].count = 0;
    }
    if (t->disk_keys) take_loaded_disk_rows(t, info, n);
}

/* Numbers that no table has are taken for the nearest that one may have. */
rk_status rk_dynamic_finish_loading(rk_dynamic_table *t) {
    if (!t->is_loading) return RK_OK;
    t->n_batches = clamp_i64(t->n_batches, t->n_keys > 0, INT64_MAX / 2);
    t->first_batch = rk_dynamic_base_batch_number(t->n_batches);
    rk_stream_clock_check_loaded(&t->clock, t->n_batches);
    t->totals.n_admitted = clamp_i64(t->totals.n_admitted, 0, INT64_MAX / 2);
    t->totals.n_evicted = clamp_i64(t->totals.n_evicted, 0, INT64_MAX / 2);
    t->totals.n_refused = clamp_i64(t->totals.n_refused, 0, INT64_MAX / 2);
    if (t->disk_keys) RK_TRY(rk_dynamic_reserve_counts_over(t, count_loaded_counts_over(t)));
    rk_parallel_for(rk_block_count((size_t)(t->n_used - t->n_shared), LOADED_ROWS_A_TASK), check_loaded_rows,
                    t);
    if (t->disk_keys) release_loaded_info(t);
    for (int64_t i = 0; i < t->n_candidates; i++)
        if (t->candidate_counts[i] > 1)
            rk_key_bucket_add_count(&t->buckets[rk_dynamic_bucket_of_key(&t->config, t->candidate_keys[i])],
                                    t->candidate_keys[i], (uint32_t)t->candidate_counts[i] - 1);
    for (int64_t b = t->first_bucket; b < t->end_bucket && t->sketches; b++) {
        rk_key_sketch sketch = rk_dynamic_sketch_of_bucket(t, (uint32_t)b);
        *sketch.load = clamp_i64(*sketch.load, 0, INT64_MAX / 2);
        rk_key_sketch_recount_load(&sketch);
    }
    t->is_loading = false;
    return RK_OK;
}
