/* What a dynamic table gives up in a batch: rows past their time, and rows for whose keys a bucket has no
 * more room. */
#include <math.h>

#include "base/integers.h"
#include "base/memory.h"
#include "base/select_top_k.h"
#include "embedding/dynamic/dynamic_table.h"

/* Where the clock is among the buckets that have their turns, all of them once in an eighth of `ttl`. */
static double scan_position(const rk_dynamic_table *t, int64_t time) {
    return floor((double)time *
                 ((double)t->config.n_buckets * 8 / (double)(t->config.ttl * RK_MICROSECONDS)));
}

/* The buckets that the clock passes on its way to this batch. */
static void find_buckets_scanned_by_clock(rk_dynamic_table *t) {
    t->first_scanned = t->n_scanned = 0;
    if (t->clock.now == RK_NO_TIMESTAMP) return;
    double n = (double)t->config.n_buckets, from = scan_position(t, t->clock.now),
           passed = scan_position(t, t->next_clock.now) - from, first = fmod(from + 1, n);
    t->n_scanned = passed < n ? (int64_t)passed : t->config.n_buckets;
    t->first_scanned = (int64_t)(first < 0 ? first + n : first);
}

/* The clock as it is when the batch has ended, and which rows are past their time: those that were unused for
 * ttl_steps batches, the last of which is this one, or since a batch that was `ttl` ago. */
void rk_dynamic_begin_time_of_batch(rk_dynamic_table *t, int64_t timestamp) {
    t->next_clock = t->clock;
    t->expired = t->config.ttl_steps ? rk_dynamic_current_batch(t) - t->config.ttl_steps : 0;
    if (!t->config.ttl) return;
    int64_t ttl = t->config.ttl * RK_MICROSECONDS;
    rk_stream_clock_advance(&t->next_clock, ttl, t->n_batches + 1, timestamp);
    int64_t expired = rk_stream_clock_expired_batch(&t->next_clock, ttl) - t->first_batch;
    if (expired > t->expired) t->expired = expired;
    find_buckets_scanned_by_clock(t);
}

/* Which rows go first: those with the least of a number, and among equals those before which no other is to
 * go. */
typedef struct eviction_order {
    int32_t (*number)(const rk_dynamic_table *t, int64_t row);
    rk_row_less goes_after; /* row a after row b, be their numbers equal or not */
} eviction_order;

static int32_t last_batch_of_row(const rk_dynamic_table *t, int64_t row) {
    return *rk_dynamic_last_batch(t, row);
}

static bool is_more_recently_used(const rk_dynamic_table *t, int64_t a, int64_t b) {
    int32_t last_a = last_batch_of_row(t, a), last_b = last_batch_of_row(t, b);
    return last_a != last_b ? last_a > last_b : rk_dynamic_row_has_smaller_key(t, b, a);
}

static bool is_more_frequently_used(const rk_dynamic_table *t, int64_t a, int64_t b) {
    int32_t count_a = rk_dynamic_count_of_row(t, a), count_b = rk_dynamic_count_of_row(t, b);
    return count_a != count_b ? count_a > count_b : is_more_recently_used(t, a, b);
}

static const eviction_order by_last_batch = {last_batch_of_row, is_more_recently_used},
                            by_count = {rk_dynamic_count_of_row, is_more_frequently_used};

/* Of a bucket, those that are not pinned: into `left`. */
static rk_status list_unpinned_rows(const rk_dynamic_table *t, rk_key_group *group, uint32_t bucket) {
    uint32_t n = t->buckets[bucket].n;
    RK_TRY(rk_reserve(&group->left, &group->left_capacity, n, sizeof *group->left));
    group->n_left = 0;
    rk_dynamic_list_rows(t, bucket, group->left);
    for (uint32_t i = 0; i < n; i++)
        if (!rk_dynamic_is_pinned(t, group->left[i])) group->left[group->n_left++] = group->left[i];
    return RK_OK;
}

/* The n that go first have at most this number; some others may have it, too. A row's place keeps numbers
 * apart. */
static int32_t most_of_first_numbers(const rk_dynamic_table *t, const rk_key_group *group, size_t n,
                                     const eviction_order *order) {
    for (size_t i = 0; i < group->n_left; i++)
        group->ranks[i] = (uint64_t)~order->number(t, group->left[i]) << 32 | i;
    rk_select_top_k(group->ranks, group->n_left, n);
    return ~(int32_t)(group->ranks[n - 1] >> 32);
}

/* Rows that are not among the first n to the front; returns how many. */
static size_t move_rows_that_stay(const rk_dynamic_table *t, rk_key_group *group, size_t n,
                                  const eviction_order *order) {
    int64_t *left = group->left;
    int32_t most = most_of_first_numbers(t, group, n, order);
    size_t n_staying = 0;
    for (size_t i = 0; i < group->n_left; i++) {
        if (order->number(t, left[i]) <= most) continue;
        int64_t row = left[i];
        left[i] = left[n_staying];
        left[n_staying++] = row;
    }
    return n_staying;
}

/* The first n of what is left, or all of it. */
static rk_status choose_evicted_rows(const rk_dynamic_table *t, rk_key_group *group, int64_t wanted,
                                     const eviction_order *order) {
    size_t n = wanted < 0 ? 0 : (size_t)wanted < group->n_left ? (size_t)wanted : group->n_left;
    if (n == 0) return RK_OK;
    RK_TRY(
        rk_reserve(&group->evicted, &group->evicted_capacity, group->n_evicted + n, sizeof *group->evicted));
    RK_TRY(rk_reserve(&group->ranks, &group->ranks_capacity, group->n_left, sizeof *group->ranks));
    size_t n_staying = move_rows_that_stay(t, group, n, order);
    rk_dynamic_sort_last_rows(t, group->left + n_staying, group->n_left - n_staying, n, order->goes_after);
    for (size_t i = 0; i < n; i++) group->evicted[group->n_evicted++] = group->left[--group->n_left];
    return RK_OK;
}

/* Buckets take turns with the search for rows past their time: each has one in so many batches. */
static int64_t batches_between_expiry_scans(const rk_dynamic_table *t) {
    return t->config.ttl_steps / 8 > 1 ? t->config.ttl_steps / 8 : 1;
}

static int64_t next_bucket_by_batches(const rk_dynamic_table *t, int64_t bucket) {
    int64_t n = batches_between_expiry_scans(t), ahead = (t->n_batches + 1 - bucket) % n;
    return t->config.ttl_steps ? bucket + (ahead < 0 ? ahead + n : ahead) : t->config.n_buckets;
}

static int64_t next_bucket_by_clock(const rk_dynamic_table *t, int64_t bucket) {
    int64_t n = t->config.n_buckets, passed = bucket - t->first_scanned;
    if (bucket >= n || !t->config.ttl || !t->n_scanned) return n;
    if ((passed < 0 ? passed + n : passed) < t->n_scanned) return bucket;
    return passed < 0 ? t->first_scanned : n;
}

/* The first bucket from this one on whose turn it is. */
int64_t rk_dynamic_next_bucket_to_scan(const rk_dynamic_table *t, int64_t bucket) {
    return rk_min_i64(next_bucket_by_batches(t, bucket), next_bucket_by_clock(t, bucket));
}

static int64_t count_expired_rows(const rk_dynamic_table *t, const rk_key_group *group) {
    int64_t n = 0;
    for (size_t i = 0; i < group->n_left; i++) n += *rk_dynamic_last_batch(t, group->left[i]) <= t->expired;
    return n;
}

/* A bucket's share of `keep`, and the rows that eviction leaves it. A product that ends a rounding or two
 * below a whole number is that number. */
static int64_t min_rows_of_bucket(const rk_dynamic_table *t, uint32_t bucket) {
    int64_t n = t->config.n_buckets;
    return t->config.keep / n + (bucket < t->config.keep % n);
}

static int64_t rows_left_after_eviction(const rk_dynamic_table *t, uint32_t bucket) {
    double share = (double)rk_dynamic_bucket_capacity(t, bucket) * t->config.evict_to;
    int64_t left = (int64_t)(share * (1 + 0x1p-51)), kept = min_rows_of_bucket(t, bucket);
    return left > kept ? left : kept;
}

/* What a bucket gives up: rows past their time, which are those that were used longest ago, and then what
 * makes room for the new keys. */
rk_status rk_dynamic_choose_evictions(const rk_dynamic_table *t, rk_key_group *group, uint32_t number,
                                      bool has_turn, int64_t n_new) {
    RK_TRY(list_unpinned_rows(t, group, number));
    int64_t n = t->buckets[number].n + n_new, n_expired = has_turn ? count_expired_rows(t, group) : 0;
    if (n_expired > n - min_rows_of_bucket(t, number)) n_expired = n - min_rows_of_bucket(t, number);
    size_t n_before = group->n_evicted;
    RK_TRY(choose_evicted_rows(t, group, n_expired, &by_last_batch));
    n -= (int64_t)(group->n_evicted - n_before);
    if (n <= rk_dynamic_bucket_capacity(t, number) || t->config.policy == RK_EVICTION_NONE) return RK_OK;
    return choose_evicted_rows(t, group, n - rows_left_after_eviction(t, number),
                               t->config.policy == RK_EVICTION_LFU ? &by_count : &by_last_batch);
}

/* The rest of a bucket's rows go into it again. */
static void evict_from_bucket(rk_dynamic_table *t, rk_key_group *group, size_t first, size_t last) {
    rk_key_bucket *bucket = rk_dynamic_bucket_with_key(t, t->info[group->evicted[first]].key);
    uint32_t n = bucket->n;
    for (size_t i = first; i < last; i++) t->info[group->evicted[i]].last_batch = 0;
    rk_key_bucket_list_rows(bucket, group->left);
    rk_key_bucket_clear(bucket);
    for (uint32_t i = 0; i < n; i++)
        if (t->info[group->left[i]].last_batch)
            rk_key_bucket_insert(bucket, t->info[group->left[i]].key, group->left[i]);
}

void rk_dynamic_apply_evictions(rk_dynamic_table *t, rk_key_group *group) {
    if (t->disk_keys) {
        for (size_t i = 0; i < group->n_evicted; i++) rk_dynamic_remove_disk_row(t, group->evicted[i]);
        return;
    }
    for (size_t first = 0, last; first < group->n_evicted; first = last) {
        const rk_key_bucket *bucket = rk_dynamic_bucket_with_key(t, t->info[group->evicted[first]].key);
        for (last = first + 1; last < group->n_evicted &&
                               rk_dynamic_bucket_with_key(t, t->info[group->evicted[last]].key) == bucket;)
            last++;
        evict_from_bucket(t, group, first, last);
    }
}
