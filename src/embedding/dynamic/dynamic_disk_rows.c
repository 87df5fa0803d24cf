/* Keys of a table with rows on a disk: a row's number is that of a bucket here and of an entry of it, behind
 * the shared rows. Entries have 16 bits for a count; what counts have beyond UINT16_MAX is kept apart, by
 * key. */
#include "base/memory.h"
#include "embedding/dynamic/dynamic_table.h"

/* A hash h is of bucket floor(h n / 2^64): the least of the bucket's. */
static uint64_t first_hash_of_bucket(uint64_t bucket, uint64_t n_buckets) {
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)((((wide)bucket << 64) + n_buckets - 1) / n_buckets);
}

rk_status rk_dynamic_create_disk_keys(rk_dynamic_table *t) {
    const rk_dynamic_config *c = &t->config;
    RK_TRY(rk_alloc((size_t)(t->end_bucket - t->first_bucket), sizeof *t->stale_buckets, &t->stale_buckets));
    RK_TRY(rk_pages_alloc((size_t)c->n_buckets * sizeof *t->disk_keys, &t->disk_keys));
    RK_TRY(rk_disk_key_pool_create(rk_dynamic_bytes_of_hash(c) - 4, &t->pool));
    for (int64_t b = t->first_bucket; b < t->end_bucket; b++) {
        t->disk_keys[b].pool = t->pool;
        t->disk_keys[b].first_hash = first_hash_of_bucket((uint64_t)b, (uint64_t)c->n_buckets);
    }
    return RK_OK;
}

void rk_dynamic_free_disk_keys(rk_dynamic_table *t) {
    for (int64_t b = t->first_bucket; t->disk_keys && b < t->end_bucket; b++)
        rk_disk_keys_release(&t->disk_keys[b]);
    rk_pages_free(t->disk_keys, (size_t)t->config.n_buckets * sizeof *t->disk_keys);
    rk_disk_key_pool_free(t->pool);
    rk_free(t->stale_buckets);
    rk_key_bucket_release(&t->counts_over);
}

/* The next batch rebuilds it. One thread at a time has the bucket. */
static void note_stale_bucket(rk_dynamic_table *t, rk_disk_keys *bucket) {
    if (bucket->is_stale) return;
    bucket->is_stale = true;
    t->stale_buckets[atomic_fetch_add_explicit(&t->n_stale, 1, memory_order_relaxed)] =
        (uint32_t)(bucket - t->disk_keys);
}

size_t rk_dynamic_count_stale_buckets(const rk_dynamic_table *t) {
    return t->n_stale;
}

rk_status rk_dynamic_rebuild_stale_bucket(rk_dynamic_table *t, size_t number) {
    rk_disk_keys *bucket = &t->disk_keys[t->stale_buckets[number]];
    return bucket->is_stale ? rk_disk_keys_rebuild(bucket) : RK_OK;
}

rk_status rk_dynamic_rebuild_stale_buckets(rk_dynamic_table *t) {
    for (size_t i = 0; i < t->n_stale; i++) RK_TRY(rk_dynamic_rebuild_stale_bucket(t, i));
    t->n_stale = 0;
    return RK_OK;
}

rk_status rk_dynamic_reserve_disk_keys(rk_dynamic_table *t, uint32_t number, uint32_t n, uint32_t most) {
    rk_disk_keys *bucket = &t->disk_keys[number];
    RK_TRY(rk_disk_keys_reserve(bucket, n, most));
    if (bucket->n_homes == bucket->n_blocks) return RK_OK;
    if (t->is_loading) return rk_disk_keys_rebuild(bucket); /* far more keys may come than there were */
    note_stale_bucket(t, bucket);
    return RK_OK;
}

static int64_t row_of_entry(const rk_dynamic_table *t, uint32_t bucket, uint32_t entry) {
    return t->n_shared + ((((int64_t)bucket - t->first_bucket) << RK_ENTRY_BITS) | (int64_t)entry);
}

int64_t rk_dynamic_find_disk_row(const rk_dynamic_table *t, uint32_t bucket, uint64_t hash) {
    uint32_t entry = rk_disk_keys_find(&t->disk_keys[bucket], hash);
    return entry == RK_NO_ENTRY ? 0 : row_of_entry(t, bucket, entry);
}

void rk_dynamic_prefetch_new_disk_row(const rk_dynamic_table *t, int64_t key) {
    uint64_t hash = rk_key_hash(key);
    const rk_disk_keys *bucket = &t->disk_keys[rk_dynamic_bucket_of_hash(&t->config, hash)];
    if (bucket->n_blocks) rk_disk_keys_prefetch_insert(bucket, hash);
}

int64_t rk_dynamic_insert_disk_row(rk_dynamic_table *t, uint32_t bucket, int64_t key, int32_t last_batch) {
    t->buckets[bucket].n++;
    return row_of_entry(t, bucket, rk_disk_keys_insert(&t->disk_keys[bucket], rk_key_hash(key), last_batch));
}

int64_t rk_dynamic_next_disk_row(const rk_dynamic_table *t, int64_t row) {
    if (row < t->n_shared) row = t->n_shared;
    rk_disk_row at = rk_dynamic_disk_row(t, row);
    for (int64_t b = at.bucket - t->disk_keys; b < t->end_bucket; b++, at.entry = 0) {
        uint32_t entry = rk_disk_keys_next(&t->disk_keys[b], at.entry);
        if (entry != RK_NO_ENTRY) return row_of_entry(t, (uint32_t)b, entry);
    }
    return 0;
}

void rk_dynamic_list_disk_rows(const rk_dynamic_table *t, uint32_t bucket, int64_t *rows) {
    const rk_disk_keys *keys = &t->disk_keys[bucket];
    for (uint32_t at = 0; at < keys->n_blocks; at++)
        for (uint32_t left = rk_disk_keys_used_entries(keys, at); left; left &= left - 1)
            *rows++ = row_of_entry(t, bucket, at * RK_BLOCK_ENTRIES + (uint32_t)__builtin_ctz(left));
}

int64_t rk_dynamic_key_of_disk_row(const rk_dynamic_table *t, int64_t row) {
    if (row < t->n_shared) return t->first_cold + row;
    rk_disk_row at = rk_dynamic_disk_row(t, row);
    return rk_key_of_hash(rk_disk_keys_hash(at.bucket, at.entry));
}

static uint16_t *count_in_entry(const rk_dynamic_table *t, int64_t row) {
    rk_disk_row at = rk_dynamic_disk_row(t, row);
    return &rk_disk_keys_block_of(at.bucket, at.entry)->counts[at.entry % RK_BLOCK_ENTRIES];
}

int32_t rk_dynamic_count_of_disk_row(const rk_dynamic_table *t, int64_t row) {
    uint32_t count = *count_in_entry(t, row);
    if (count == UINT16_MAX)
        count = rk_add_uses_saturating(
            count, rk_key_bucket_read_count(&t->counts_over, rk_dynamic_key_of_disk_row(t, row)));
    return (int32_t)count;
}

rk_status rk_dynamic_reserve_counts_over(rk_dynamic_table *t, uint64_t n_more) {
    uint64_t n = t->counts_over.n_counted + n_more;
    RK_FAIL_IF(n > INT32_MAX, RK_NO_MEMORY, "more than 2^31 rows are used more than 2^16 times");
    return n_more ? rk_key_bucket_reserve_counts(&t->counts_over, (uint32_t)n, UINT32_MAX) : RK_OK;
}

uint32_t rk_dynamic_share_of_passing(const rk_dynamic_table *t, int64_t row, uint32_t uses) {
    uint32_t lacks = UINT16_MAX + 1u - *count_in_entry(t, row);
    return uses < lacks ? (uint32_t)((((uint64_t)uses << 16) + lacks - 1) / lacks) : 1u << 16;
}

void rk_dynamic_add_to_disk_row(rk_dynamic_table *t, int64_t row, uint32_t uses, bool is_shared) {
    uint16_t *count = count_in_entry(t, row), before = __atomic_load_n(count, __ATOMIC_RELAXED), after;
    do {
        after = uses > (uint32_t)(UINT16_MAX - before) ? UINT16_MAX : (uint16_t)(before + uses);
        if (!is_shared) {
            *count = after;
            break;
        }
    } while (!__atomic_compare_exchange_n(count, &before, after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    uint32_t over = uses - (uint32_t)(after - before);
    if (!over) return;
    pthread_mutex_lock(&t->over_mutex);
    rk_key_bucket_add_count(&t->counts_over, rk_dynamic_key_of_disk_row(t, row), over);
    pthread_mutex_unlock(&t->over_mutex);
}

void rk_dynamic_remove_disk_row(rk_dynamic_table *t, int64_t row) {
    rk_disk_row at = rk_dynamic_disk_row(t, row);
    if (*count_in_entry(t, row) == UINT16_MAX) {
        pthread_mutex_lock(&t->over_mutex);
        rk_key_bucket_remove_count(&t->counts_over, rk_dynamic_key_of_disk_row(t, row));
        pthread_mutex_unlock(&t->over_mutex);
    }
    rk_disk_keys_remove(at.bucket, at.entry);
    t->buckets[at.bucket - t->disk_keys].n--;
    note_stale_bucket(t, at.bucket);
}

void rk_dynamic_clear_disk_rows(rk_dynamic_table *t, uint32_t bucket) {
    rk_disk_keys_clear(&t->disk_keys[bucket]);
    t->buckets[bucket].n = 0;
}
