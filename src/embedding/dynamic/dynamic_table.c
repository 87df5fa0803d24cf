#include "embedding/dynamic/dynamic_table.h"

#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

rk_status rk_dynamic_create(const rk_dynamic_config *config, uint64_t seed, uint64_t name_hash,
                            rk_dynamic_table **out) {
    rk_dynamic_table *t;
    RK_TRY(rk_alloc(1, sizeof *t, &t));
    t->config = *config;
    t->end_bucket = config->n_buckets;
    if (config->n_parts) {
        t->first_bucket = rk_dynamic_first_bucket(config, config->part, config->n_parts);
        t->end_bucket = rk_dynamic_first_bucket(config, config->part + 1, config->n_parts);
    }
    t->stream = rk_hash_combine(seed, name_hash);
    t->n_used = 1;
    rk_status status;
    RK_GOTO(rk_alloc(RK_MAX_KEY_GROUPS, sizeof *t->groups, &t->groups));
    RK_GOTO(rk_pages_alloc((size_t)config->n_buckets * sizeof *t->buckets, &t->buckets));
    RK_GOTO(rk_dynamic_grow(t, rk_dynamic_first_places(config)));
    *out = t;
    t = NULL;
done:
    rk_dynamic_free(t);
    return status;
}

static void release_groups(rk_dynamic_table *t) {
    for (size_t g = 0; t->groups && g < RK_MAX_KEY_GROUPS; g++)
        RK_FREE_ALL(t->groups[g].created, t->groups[g].counted, t->groups[g].evicted, t->groups[g].left);
    rk_free(t->groups);
}

void rk_dynamic_free(rk_dynamic_table *t) {
    if (!t) return;
    for (int64_t b = 0; t->buckets && b < t->config.n_buckets; b++) rk_key_bucket_release(&t->buckets[b]);
    rk_pages_free(t->buckets, (size_t)t->config.n_buckets * sizeof *t->buckets);
    rk_pages_free(t->keys, (size_t)t->n_places * sizeof *t->keys);
    rk_pages_free(t->last_batches, (size_t)t->n_places * sizeof *t->last_batches);
    rk_pages_free(t->counts, (size_t)t->n_places * sizeof *t->counts);
    release_groups(t);
    RK_FREE_ALL(t->loaded.list, t->loaded_candidates.list);
    RK_FREE_ALL(t->free_rows, t->dealt_keys, t->dealt_places, t->dealt_uses, t->dealt_rows, t->absent,
                t->order, t->candidate_keys, t->candidate_counts, t);
}

rk_status rk_dynamic_grow(rk_dynamic_table *t, int64_t n_places) {
    size_t n = (size_t)n_places, old = (size_t)t->n_places, used = (size_t)t->n_used;
    int64_t *keys, *last_batches = NULL;
    int32_t *counts = NULL;
    RK_TRY(rk_pages_alloc(n * sizeof *keys, &keys));
    rk_status status = rk_pages_alloc(n * sizeof *last_batches, &last_batches);
    if (status == RK_OK) status = rk_pages_alloc(n * sizeof *counts, &counts);
    if (status != RK_OK) {
        rk_pages_free(keys, n * sizeof *keys);
        rk_pages_free(last_batches, n * sizeof *last_batches);
        return status;
    }
    if (old) {
        memcpy(keys, t->keys, used * sizeof *keys);
        memcpy(last_batches, t->last_batches, used * sizeof *last_batches);
        memcpy(counts, t->counts, used * sizeof *counts);
    }
    rk_pages_free(t->keys, old * sizeof *keys);
    rk_pages_free(t->last_batches, old * sizeof *last_batches);
    rk_pages_free(t->counts, old * sizeof *counts);
    t->keys = keys;
    t->last_batches = last_batches;
    t->counts = counts;
    t->n_places = n_places;
    return RK_OK;
}

uint32_t rk_dynamic_bucket_of(const rk_dynamic_table *t, uint64_t hash) {
    return (uint32_t)rk_hash_bucket(hash, (uint64_t)t->config.n_buckets);
}

int64_t rk_dynamic_bucket_capacity(const rk_dynamic_table *t, uint32_t bucket) {
    return rk_dynamic_capacity_of(&t->config, bucket + 1) - rk_dynamic_capacity_of(&t->config, bucket);
}

int64_t rk_dynamic_row_of(const rk_dynamic_table *t, int64_t key) {
    return rk_key_bucket_find(&t->buckets[rk_dynamic_bucket_of(t, rk_key_hash(key))], t->keys, key);
}

void rk_dynamic_find(rk_dynamic_table *t, const int64_t *keys, int64_t n, int64_t *rows) {
    rk_dynamic_find_uses(t, &(rk_key_uses){.keys = keys, .rows = rows, .n = n});
}

void rk_dynamic_find_uses(rk_dynamic_table *t, const rk_key_uses *uses) {
    int64_t n_missing = 0;
    for (int64_t i = 0; i < uses->n; i++) {
        uses->rows[i] = rk_dynamic_row_of(t, uses->keys[i]);
        if (!uses->rows[i]) n_missing += uses->uses ? uses->uses[i] : 1;
    }
    if (n_missing) atomic_fetch_add_explicit(&t->n_missing, n_missing, memory_order_relaxed);
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

void rk_dynamic_sort_last(const rk_dynamic_table *t, int64_t *rows, size_t n, size_t n_sorted,
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

void rk_dynamic_sort(const rk_dynamic_table *t, int64_t *rows, size_t n, rk_row_less less) {
    rk_dynamic_sort_last(t, rows, n, n, less);
}
