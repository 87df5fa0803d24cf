#include "embedding/dynamic/dynamic_table.h"

#include "base/hash.h"
#include "base/memory.h"

static rk_status create_sketches(rk_dynamic_table *t) {
    const rk_dynamic_config *c = &t->config;
    if (!rk_dynamic_has_sketches(c) || c->is_read) return RK_OK;
    bool is_bloom = c->counter == RK_COUNTER_BLOOM;
    int64_t n_rows = rk_dynamic_bucket_capacity(t, 0);
    RK_FAIL_IF(n_rows > rk_counter_max_rows(c->counter), RK_INVALID_ARGUMENT,
               "a bucket of %lld rows is too large for 'counter: %s'\nhint: give the table more 'buckets'",
               (long long)n_rows, rk_counter_name(c->counter));
    t->sketch_width = rk_sketch_width(is_bloom, n_rows);
    t->sketch_bytes = rk_sketch_bytes(is_bloom, t->sketch_width);
    size_t n = (size_t)(t->end_bucket - t->first_bucket);
    RK_TRY(rk_pages_alloc(n * t->sketch_bytes, &t->sketches));
    return rk_alloc(n, sizeof *t->sketch_loads, &t->sketch_loads);
}

static size_t bytes_of_rooms(const rk_dynamic_table *t) {
    return (size_t)(t->end_bucket - t->first_bucket) * t->room_lines * sizeof *t->rooms;
}

/* Addresses alone: pages are touched as buckets move in. Where the system has not as many for all rows that
 * there may ever be, buckets do without. */
static void create_rooms(rk_dynamic_table *t) {
    int64_t most = t->config.max_capacity / t->config.n_buckets + 1;
    t->room_lines = rk_key_bucket_lines((uint64_t)most);
    bool fits = (double)(t->end_bucket - t->first_bucket) * (double)t->room_lines * sizeof *t->rooms < 0x1p47;
    if (!fits || rk_pages_alloc(bytes_of_rooms(t), &t->rooms) != RK_OK) t->rooms = NULL;
}

rk_key_sketch rk_dynamic_sketch_of_bucket(const rk_dynamic_table *t, uint32_t bucket) {
    uint64_t number = (uint64_t)bucket - (uint64_t)t->first_bucket;
    return (rk_key_sketch){.cells = t->sketches + number * t->sketch_bytes,
                           .load = &t->sketch_loads[number],
                           .width = (uint32_t)t->sketch_width,
                           .is_bloom = t->config.counter == RK_COUNTER_BLOOM};
}

rk_status rk_dynamic_create(const rk_dynamic_config *config, uint64_t seed, uint64_t name_hash,
                            rk_dynamic_table **out) {
    rk_dynamic_table *t;
    RK_TRY(rk_alloc(1, sizeof *t, &t));
    pthread_mutex_init(&t->over_mutex, NULL);
    t->config = *config;
    t->end_bucket = config->n_buckets;
    if (config->n_parts) {
        t->first_bucket = rk_dynamic_first_bucket(config, config->part, config->n_parts);
        t->end_bucket = rk_dynamic_first_bucket(config, config->part + 1, config->n_parts);
    }
    rk_stream_clock_reset(&t->clock);
    t->stream = rk_hash_combine(seed, name_hash);
    t->n_used = t->n_shared = rk_dynamic_n_shared_rows(config);
    t->first_cold = rk_dynamic_cold_rows_of_buckets(config, t->first_bucket);
    rk_status status;
    RK_GOTO(rk_alloc(RK_MAX_KEY_GROUPS, sizeof *t->groups, &t->groups));
    RK_GOTO(rk_pages_alloc((size_t)config->n_buckets * sizeof *t->buckets, &t->buckets));
    RK_GOTO(create_sketches(t));
    if (rk_dynamic_has_disk_rows(config))
        RK_GOTO(rk_dynamic_create_disk_keys(t));
    else
        create_rooms(t);
    RK_GOTO(rk_dynamic_grow_rows(t, rk_dynamic_initial_rows(config)));
    for (int64_t row = 0; row < t->n_shared && t->info; row++) t->info[row].key = t->first_cold + row;
    *out = t;
    t = NULL;
done:
    rk_dynamic_free(t);
    return status;
}

static void release_groups(rk_dynamic_table *t) {
    for (size_t g = 0; t->groups && g < RK_MAX_KEY_GROUPS; g++)
        RK_FREE_ALL(t->groups[g].absent, t->groups[g].created, t->groups[g].counted, t->groups[g].evicted,
                    t->groups[g].left, t->groups[g].ranks);
    rk_free(t->groups);
}

void rk_dynamic_free(rk_dynamic_table *t) {
    if (!t) return;
    for (int64_t b = 0; t->buckets && b < t->config.n_buckets; b++) rk_key_bucket_release(&t->buckets[b]);
    rk_pages_free(t->buckets, (size_t)t->config.n_buckets * sizeof *t->buckets);
    rk_pages_free(t->rooms, bytes_of_rooms(t));
    rk_pages_free(t->sketches, (size_t)(t->end_bucket - t->first_bucket) * t->sketch_bytes);
    rk_pages_free(t->info, t->info_bytes);
    rk_dynamic_free_disk_keys(t);
    pthread_mutex_destroy(&t->over_mutex);
    release_groups(t);
    RK_FREE_ALL(t->loaded.list, t->loaded_candidates.list, t->sketch_loads);
    RK_FREE_ALL(t->free_rows, t->use_begins, t->chunks, t->found, t->absent, t->dealt, t->recent, t->order,
                t->candidate_keys, t->candidate_counts, t);
}

rk_status rk_dynamic_grow_rows(rk_dynamic_table *t, int64_t n_places) {
    RK_FAIL_IF(n_places > RK_MOST_KEY_ROWS, RK_NO_MEMORY, "more than 2^34 rows of keys in one process");
    if (!t->disk_keys) RK_TRY(rk_pages_reserve(&t->info, &t->info_bytes, (size_t)n_places * sizeof *t->info));
    t->n_places = n_places;
    return RK_OK;
}

enum { MOST_BATCHES = INT32_MAX - 1, MOVED_BATCHES = 1 << 30 };

int64_t rk_dynamic_base_batch_number(int64_t n_batches) {
    return n_batches < MOST_BATCHES ? 0 : ((n_batches - MOST_BATCHES) / MOVED_BATCHES + 1) * MOVED_BATCHES;
}

int64_t rk_dynamic_bucket_capacity(const rk_dynamic_table *t, uint32_t bucket) {
    return rk_dynamic_capacity_of_buckets(&t->config, bucket + 1) -
           rk_dynamic_capacity_of_buckets(&t->config, bucket);
}

rk_status rk_dynamic_reserve_bucket(rk_dynamic_table *t, uint32_t bucket, uint32_t n_rows) {
    int64_t capacity = rk_dynamic_bucket_capacity(t, bucket);
    uint32_t most = capacity < UINT32_MAX ? (uint32_t)capacity : UINT32_MAX;
    if (t->disk_keys) return rk_dynamic_reserve_disk_keys(t, bucket, n_rows, most);
    rk_index_line *room = t->rooms ? t->rooms + (bucket - (uint64_t)t->first_bucket) * t->room_lines : NULL;
    return rk_key_bucket_reserve(&t->buckets[bucket], t->info, n_rows, most, room);
}

void rk_dynamic_list_rows(const rk_dynamic_table *t, uint32_t bucket, int64_t *rows) {
    if (t->disk_keys)
        rk_dynamic_list_disk_rows(t, bucket, rows);
    else
        rk_key_bucket_list_rows(&t->buckets[bucket], rows);
}

uint32_t rk_dynamic_most_counted_keys(const rk_dynamic_table *t, uint32_t bucket) {
    int64_t most = 2 * rk_dynamic_bucket_capacity(t, bucket);
    return most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}

rk_status rk_dynamic_reserve_counts(rk_dynamic_table *t, uint32_t bucket, uint32_t n_counted) {
    return rk_key_bucket_reserve_counts(&t->buckets[bucket], n_counted,
                                        rk_dynamic_most_counted_keys(t, bucket));
}

/* The largest of a heap's row `at` and those below it moves up. */
static void sift_down(const rk_dynamic_table *t, int64_t *rows, size_t at, size_t n, rk_row_less less) {
    int64_t row = rows[at];
    for (size_t below = 2 * at + 1; below < n; below = 2 * at + 1) {
        below += below + 1 < n && less(t, rows[below], rows[below + 1]);
        if (!less(t, row, rows[below])) break;
        rows[at] = rows[below];
        at = below;
    }
    rows[at] = row;
}

void rk_dynamic_sort_last_rows(const rk_dynamic_table *t, int64_t *rows, size_t n, size_t n_sorted,
                               rk_row_less less) {
    if (!n_sorted) return;
    for (size_t i = n / 2; i > 0; i--) sift_down(t, rows, i - 1, n, less);
    for (size_t i = n; i > 1 && n - i < n_sorted; i--) {
        int64_t largest = rows[0];
        rows[0] = rows[i - 1];
        rows[i - 1] = largest;
        sift_down(t, rows, 0, i - 1, less);
    }
}

void rk_dynamic_sort_rows(const rk_dynamic_table *t, int64_t *rows, size_t n, rk_row_less less) {
    rk_dynamic_sort_last_rows(t, rows, n, n, less);
}
