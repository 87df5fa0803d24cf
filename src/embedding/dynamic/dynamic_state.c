/* A dynamic table's keys as a checkpoint has them. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/thread/parallel.h"
#include "embedding/dynamic/dynamic_table.h"

static bool by_key(const rk_dynamic_table *t, int64_t a, int64_t b) {
    return (uint64_t)t->keys[a] < (uint64_t)t->keys[b];
}

bool rk_dynamic_in_order(const rk_dynamic_table *t, int64_t a, int64_t b) {
    uint32_t x = rk_dynamic_bucket_of(t, rk_key_hash(a)), y = rk_dynamic_bucket_of(t, rk_key_hash(b));
    return x != y ? x < y : (uint64_t)a < (uint64_t)b;
}

static bool by_bucket(const rk_dynamic_table *t, int64_t a, int64_t b) {
    return rk_dynamic_in_order(t, t->keys[a], t->keys[b]);
}

void rk_dynamic_sort_by_key(const rk_dynamic_table *t, int64_t *rows, size_t n) {
    rk_dynamic_sort(t, rows, n, by_bucket);
}

static int by_value(const void *a, const void *b) {
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

/* Where each bucket's rows and candidates begin among all. */
typedef struct listing {
    rk_dynamic_table *table;
    int64_t *rows, *candidates; /* [n_buckets] */
} listing;

static void list_candidates(rk_dynamic_table *t, const rk_key_bucket *bucket, int64_t at) {
    int64_t n = 0, *keys = t->candidate_keys + at;
    for (size_t i = 0; i < (size_t)1 << bucket->counted_bits; i++)
        if (bucket->uses[i]) keys[n++] = bucket->counted[i];
    qsort(keys, (size_t)n, sizeof *keys, by_value);
    for (int64_t i = 0; i < n; i++)
        t->candidate_counts[at + i] = (int32_t)rk_key_bucket_uses(bucket, keys[i]);
}

enum { LISTED_AT_ONCE = 16 /* buckets a task */ };

static void list_buckets(void *context, size_t task, int thread) {
    (void)thread;
    const listing *l = context;
    rk_dynamic_table *t = l->table;
    int64_t first = (int64_t)task * LISTED_AT_ONCE, last = first + LISTED_AT_ONCE;
    for (int64_t b = first; b < last && b < t->config.n_buckets; b++) {
        const rk_key_bucket *bucket = &t->buckets[b];
        if (bucket->n) {
            rk_key_bucket_list(bucket, t->order + l->rows[b]);
            rk_dynamic_sort(t, t->order + l->rows[b], bucket->n, by_key);
        }
        if (bucket->n_counted) list_candidates(t, bucket, l->candidates[b]);
    }
}

static rk_status reserve_candidates(rk_dynamic_table *t, int64_t n) {
    RK_TRY(rk_reserve(&t->candidate_keys, &t->candidate_keys_capacity, (size_t)n, sizeof *t->candidate_keys));
    return rk_reserve(&t->candidate_counts, &t->candidate_counts_capacity, (size_t)n,
                      sizeof *t->candidate_counts);
}

rk_status rk_dynamic_list(rk_dynamic_table *t) {
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
    RK_TRY(reserve_candidates(t, n_candidates));
    t->n_candidates = n_candidates;
    listing l = {t, rows, candidates};
    rk_parallel_for(rk_blocks(n_buckets, LISTED_AT_ONCE), list_buckets, &l);
    return RK_OK;
}

static rk_status twice(int64_t key) {
    return rk_error(RK_BAD_DATA, "the key %lld is there twice", (long long)key);
}

void rk_dynamic_begin_loading(rk_dynamic_table *t) {
    for (int64_t b = t->first_bucket; b < t->end_bucket; b++) {
        rk_key_bucket_clear(&t->buckets[b]);
        rk_key_bucket_clear_counts(&t->buckets[b]);
    }
    t->n_keys = t->n_free = t->n_candidates = 0;
    t->n_used = 1;
    t->totals = (rk_dynamic_totals){0};
    rk_key_ranges *ranges[] = {&t->loaded, &t->loaded_candidates};
    for (int i = 0; i < 2; i++) ranges[i]->n = 0, ranges[i]->n_read = ranges[i]->total = 0;
    t->is_loading = true;
}

static bool belongs_here(const rk_dynamic_table *t, int64_t key) {
    int64_t bucket = rk_dynamic_bucket_of(t, rk_key_hash(key));
    return bucket >= t->first_bucket && bucket < t->end_bucket;
}

int64_t rk_dynamic_count_own(const rk_dynamic_table *t, const int64_t *keys, int64_t n) {
    int64_t n_own = 0;
    for (int64_t i = 0; i < n; i++) n_own += belongs_here(t, keys[i]);
    return n_own;
}

/* Of each range of keys that belong here, where `take` puts them. */
static rk_status load_ranges(rk_dynamic_table *t, rk_key_ranges *ranges, rk_key_range given, int64_t total,
                             const int64_t *keys, rk_status (*take)(rk_dynamic_table *t, int64_t key)) {
    RK_FAIL_IF(ranges->n_read && ranges->total != total, RK_BAD_DATA,
               "one part of it is of %lld keys, another one of %lld", (long long)ranges->total,
               (long long)total);
    ranges->total = total;
    ranges->n_read += given.n;
    for (int64_t i = 0, last; i < given.n; i = last) {
        for (last = i; last < given.n && belongs_here(t, keys[last]); last++) RK_TRY(take(t, keys[last]));
        if (last > i) {
            RK_TRY(rk_grow(&ranges->list, ranges->n, &ranges->capacity, sizeof *ranges->list));
            ranges->list[ranges->n++] = (rk_key_range){given.first + i, last - i, given.at};
            given.at += last - i;
        } else {
            last++;
        }
    }
    return RK_OK;
}

static rk_status take_key(rk_dynamic_table *t, int64_t key) {
    rk_key_bucket *bucket = &t->buckets[rk_dynamic_bucket_of(t, rk_key_hash(key))];
    if (rk_key_bucket_find(bucket, t->keys, key)) return twice(key);
    RK_TRY(rk_key_bucket_reserve(bucket, t->keys, bucket->n + 1));
    t->keys[t->n_used] = key;
    rk_key_bucket_insert(bucket, key, t->n_used);
    t->n_keys++;
    t->n_used++;
    return RK_OK;
}

rk_status rk_dynamic_load(rk_dynamic_table *t, int64_t first, int64_t total, const int64_t *keys, int64_t n) {
    return load_ranges(t, &t->loaded, (rk_key_range){first, n, t->n_used}, total, keys, take_key);
}

/* They have a count of 1 until theirs is read. */
static rk_status take_candidate(rk_dynamic_table *t, int64_t key) {
    rk_key_bucket *bucket = &t->buckets[rk_dynamic_bucket_of(t, rk_key_hash(key))];
    if (rk_key_bucket_uses(bucket, key)) return twice(key);
    RK_TRY(rk_key_bucket_reserve_counts(bucket, bucket->n_counted + 1));
    rk_key_bucket_count(bucket, key, 1);
    t->candidate_keys[t->n_candidates] = key;
    t->candidate_counts[t->n_candidates++] = 1;
    return RK_OK;
}

rk_status rk_dynamic_load_candidates(rk_dynamic_table *t, int64_t first, int64_t total, const int64_t *keys,
                                     int64_t n) {
    RK_TRY(reserve_candidates(t, t->n_candidates + rk_dynamic_count_own(t, keys, n)));
    return load_ranges(t, &t->loaded_candidates, (rk_key_range){first, n, t->n_candidates}, total, keys,
                       take_candidate);
}

int64_t rk_dynamic_n_candidates(const rk_dynamic_table *t) {
    int64_t n = 0;
    for (int64_t b = t->first_bucket; b < t->end_bucket; b++) n += t->buckets[b].n_counted;
    return n;
}

static int64_t within(int64_t value, int64_t least, int64_t most) {
    return value < least ? least : value > most ? most : value;
}

/* Numbers that no table has are taken for the nearest that one may have. */
void rk_dynamic_loaded(rk_dynamic_table *t) {
    if (!t->is_loading) return;
    t->n_batches = within(t->n_batches, t->n_keys > 0, INT64_MAX / 2);
    t->totals.n_admitted = within(t->totals.n_admitted, 0, INT64_MAX / 2);
    t->totals.n_evicted = within(t->totals.n_evicted, 0, INT64_MAX / 2);
    t->totals.n_refused = within(t->totals.n_refused, 0, INT64_MAX / 2);
    for (int64_t row = 1; row < t->n_used; row++) {
        t->last_batches[row] = within(t->last_batches[row], 1, t->n_batches);
        if (t->counts[row] < 0) t->counts[row] = 0;
    }
    for (int64_t i = 0; i < t->n_candidates; i++)
        if (t->candidate_counts[i] > 1)
            rk_key_bucket_count(&t->buckets[rk_dynamic_bucket_of(t, rk_key_hash(t->candidate_keys[i]))],
                                t->candidate_keys[i], (uint32_t)t->candidate_counts[i] - 1);
    t->is_loading = false;
}
