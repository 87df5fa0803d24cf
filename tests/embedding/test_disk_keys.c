/* Keys of a bucket whose rows are on a disk, beside a plain list: keys whose hashes agree in whatever decides
 * where they stand and what is compared first, entries that are removed and taken again, and growth in the
 * midst of it. */
#include "testing.h"

#include <stdbool.h>

#include "base/memory.h"
#include "base/rng.h"
#include "base/thread/parallel.h"
#include "embedding/dynamic/disk_keys.h"
#include "embedding/dynamic/dynamic_table.h"

enum { MOST = 16000 };

typedef struct known_entry {
    uint64_t hash;
    uint32_t entry;
    int32_t last_batch;
    uint16_t count;
    uint64_t where;
} known_entry;

static known_entry known[MOST];
static int n_known;

static rk_disk_keys make_bucket(int n_high) {
    rk_disk_keys keys = {0};
    OK(rk_disk_key_pool_create(n_high, &keys.pool));
    return keys;
}

static void release(rk_disk_keys *keys) {
    rk_disk_key_pool *pool = keys->pool;
    rk_disk_keys_release(keys);
    rk_disk_key_pool_free(pool);
}

static void insert(rk_disk_keys *keys, uint64_t hash, int i) {
    known_entry *k = &known[n_known++];
    *k = (known_entry){hash, rk_disk_keys_insert(keys, hash, i + 1), i + 1, (uint16_t)(7 * i),
                       (uint64_t)i << 34 | (uint64_t)i};
    rk_disk_key_block *block = rk_disk_keys_block_of(keys, k->entry);
    assert_int_equal(block->counts[k->entry % RK_BLOCK_ENTRIES], 0);
    assert_true(rk_disk_keys_read_where(keys, k->entry) == 0);
    block->counts[k->entry % RK_BLOCK_ENTRIES] = k->count;
    rk_disk_keys_write_where(keys, k->entry, k->where);
}

/* stays: entries are where they were. */
static void check(const rk_disk_keys *keys, bool stays) {
    int n = 0;
    for (int i = 0; i < n_known; i++) {
        known_entry *k = &known[i];
        uint32_t entry = rk_disk_keys_find(keys, k->hash);
        assert_true(entry != RK_NO_ENTRY && entry < keys->n_blocks * RK_BLOCK_ENTRIES);
        if (stays) assert_int_equal(entry, k->entry);
        k->entry = entry;
        const rk_disk_key_block *block = rk_disk_keys_block_of(keys, entry);
        assert_true(rk_disk_keys_hash(keys, entry) == k->hash);
        assert_int_equal(block->last_batches[entry % RK_BLOCK_ENTRIES], k->last_batch);
        assert_int_equal(block->counts[entry % RK_BLOCK_ENTRIES], k->count);
        assert_true(rk_disk_keys_read_where(keys, entry) == k->where);
    }
    for (uint32_t e = 0; (e = rk_disk_keys_next(keys, e)) != RK_NO_ENTRY; e++) n++;
    assert_int_equal(n, n_known);
}

static void forget(rk_disk_keys *keys, int i) {
    rk_disk_keys_remove(keys, known[i].entry);
    rk_disk_keys_write_where(keys, known[i].entry, 0);
    assert_true(rk_disk_keys_find(keys, known[i].hash) == RK_NO_ENTRY);
    known[i] = known[--n_known];
}

/* Hash i of a bucket, such that many agree in all but some bits. */
static uint64_t hash_of(const rk_disk_keys *keys, int kind, int i) {
    static const int differ_at[] = {0, 20, 31, 32, 38};
    if (kind < 5) return keys->first_hash + ((uint64_t)i << differ_at[kind]);
    if (kind == 5) return keys->first_hash + UINT32_MAX - (uint64_t)i; /* they belong into the last blocks */
    rk_rng rng = {(uint64_t)i, 3, 0};
    return keys->first_hash + (rk_rng_next(&rng) >> 16);
}

/* Each width of what remains of a hash, down to 33 bits, of which a key of `kind` 4 has few. */
static void test_against_a_list(void **state) {
    (void)state;
    for (int kind = 0; kind < 7; kind++)
        for (int n_high = 2; n_high <= 4; n_high++) {
            rk_disk_keys keys = make_bucket(n_high);
            keys.first_hash = (uint64_t)1 << 50 | 12345;
            rk_rng rng = {(uint64_t)kind, (uint64_t)n_high, 0};
            int most = kind == 4 ? 200 : 1500, next = 0;
            n_known = 0;
            assert_true(rk_disk_keys_find(&keys, keys.first_hash) == RK_NO_ENTRY);
            for (int batch = 0; batch < 30 && next < most; batch++) {
                int n_new = (int)rk_rng_below(&rng, 120), n_old = (int)rk_rng_below(&rng, 80);
                for (int i = 0; i < n_old && n_known; i++)
                    forget(&keys, (int)rk_rng_below(&rng, (uint64_t)n_known));
                if (keys.n_homes < keys.n_blocks) OK(rk_disk_keys_rebuild(&keys));
                check(&keys, false);
                OK(rk_disk_keys_reserve(&keys, (uint32_t)(n_known + n_new), 300));
                check(&keys, true); /* also where it grew */
                for (int i = 0; i < n_new && next < most; i++, next++) {
                    uint64_t hash = hash_of(&keys, kind, next);
                    assert_true(rk_disk_keys_find(&keys, hash) == RK_NO_ENTRY);
                    insert(&keys, hash, next);
                }
                check(&keys, true);
                if (batch % 4 == 3) {
                    OK(rk_disk_keys_rebuild(&keys));
                    assert_int_equal(keys.n_homes, keys.n_blocks);
                    check(&keys, false);
                }
            }
            assert_true(keys.n_blocks > 5 || kind == 4);
            rk_disk_keys_clear(&keys);
            n_known = 0;
            check(&keys, true);
            release(&keys);
        }
}

/* Keys that passed the last block stand in the first ones, also when there are blocks behind the last one. */
static void test_growth_behind_wrapped_keys(void **state) {
    (void)state;
    rk_disk_keys keys = make_bucket(4);
    n_known = 0;
    OK(rk_disk_keys_reserve(&keys, 60, 62));
    assert_int_equal(keys.n_blocks, 2);
    for (int i = 0; i < 40; i++) insert(&keys, UINT32_MAX - (uint64_t)i, i);
    OK(rk_disk_keys_reserve(&keys, 130, 62));
    assert_true(keys.n_blocks > 2 && keys.n_homes == 2);
    check(&keys, true);
    for (int i = 40; i < 130; i++) insert(&keys, UINT32_MAX - (uint64_t)i, i);
    check(&keys, true);
    OK(rk_disk_keys_rebuild(&keys));
    check(&keys, false);
    release(&keys);
}

/* Blocks from a key's home to where it stands. */
static uint32_t distance_from_home(const rk_disk_keys *keys, const known_entry *k) {
    uint32_t at = k->entry / RK_BLOCK_ENTRIES, first = at < keys->n_homes ? 0 : keys->n_homes,
             n = first ? keys->n_blocks - first : keys->n_homes,
             home = first + rk_key_first_entry(k->hash - keys->first_hash, n);
    return at >= home ? at - home : at + n - home;
}

static double mean_distance_from_home(const rk_disk_keys *keys) {
    double sum = 0;
    for (int i = 0; i < n_known; i++) sum += distance_from_home(keys, &known[i]);
    return sum / n_known;
}

/* Far more keys than there were, at once: none of them goes through all blocks to find its place, be it one
 * of those that were added or, of the last keys, of the others, which eviction emptied. */
static void test_many_keys_at_once(void **state) {
    (void)state;
    enum { FEW = 500 };
    rk_disk_keys keys = make_bucket(4);
    rk_rng rng = {4, 2, 0};
    n_known = 0;
    OK(rk_disk_keys_reserve(&keys, FEW, MOST));
    for (int i = 0; i < FEW; i++) insert(&keys, rk_rng_next(&rng), i);
    OK(rk_disk_keys_reserve(&keys, MOST, MOST));
    assert_true(keys.n_blocks > 30 * keys.n_homes);
    while (n_known) forget(&keys, n_known - 1);
    for (int i = 0; i < MOST; i++) insert(&keys, rk_rng_next(&rng), i);
    check(&keys, true);
    assert_true(mean_distance_from_home(&keys) < 8);
    OK(rk_disk_keys_rebuild(&keys));
    check(&keys, false);
    assert_true(mean_distance_from_home(&keys) < 8);
    release(&keys);
}

/* A full bucket of the usual size: a row takes no more than 20 bytes where the bucket gives 8 bits of a hash.
 */
static void test_bytes_of_a_full_bucket(void **state) {
    (void)state;
    rk_disk_keys keys = make_bucket(3);
    n_known = 0;
    rk_rng rng = {1, 2, 0};
    for (uint32_t n = 1; n <= 4096; n++) {
        OK(rk_disk_keys_reserve(&keys, n, 4096));
        rk_disk_keys_insert(&keys, rk_rng_next(&rng) >> 8, 1);
    }
    double bytes = (double)rk_disk_key_pool_bytes(keys.pool) + keys.n_blocks * 4.0 + sizeof keys;
    assert_true(bytes / 4096 < 20);
    release(&keys);
}

static void test_key_of_hash(void **state) {
    (void)state;
    rk_rng rng = {1, 1, 0};
    static const int64_t odd[] = {0, -1, 1, INT64_MAX, INT64_MIN, -0x1E3779B97F4A7C15};
    for (int i = 0; i < 10000; i++) {
        int64_t key = i < 6 ? odd[i] : (int64_t)rk_rng_next(&rng);
        assert_true(rk_key_of_hash(rk_key_hash(key)) == key);
    }
}

/* A batch of keys, each used so often, on a table that has no rows. */
static void run_batch(rk_dynamic_table *t, int64_t n, const int64_t *batch_keys, const uint32_t *uses) {
    static int64_t rows[MOST];
    rk_key_uses all = {.keys = batch_keys, .rows = rows, .n = n, .uses = uses};
    int64_t n_places;
    OK(rk_dynamic_begin_batch(t, &all, 1, RK_NO_TIMESTAMP));
    for (size_t c = 0; c < t->n_chunks; c++) rk_dynamic_find_rows_of_chunk(t, c);
    for (size_t g = 0; g < t->n_groups; g++) OK(rk_dynamic_decide_admissions(t, g));
    OK(rk_dynamic_reserve_new_rows(t, &n_places));
    if (n_places > t->n_places) OK(rk_dynamic_grow_rows(t, n_places));
    for (size_t c = 0; c < t->n_chunks; c++) rk_dynamic_count_uses_of_chunk(t, c);
    for (size_t g = 0; g < t->n_groups; g++) rk_dynamic_apply_admissions(t, g);
    rk_dynamic_end_batch(t);
    for (int64_t i = 0; i < n; i++)
        if (rows[i]) assert_true(rk_dynamic_key_of_row(t, rows[i]) == batch_keys[i]);
}

static rk_dynamic_table *make_table(rk_eviction_policy policy, int64_t capacity, const char *storage) {
    rk_dynamic_table *t;
    rk_dynamic_config config = {.max_capacity = capacity,
                                .n_buckets = 2,
                                .policy = (int)policy,
                                .evict_to = 0.8,
                                .min_count = 1,
                                .probability = 1,
                                .storage = storage};
    OK(rk_dynamic_create(&config, 1, 2, &t));
    return t;
}

/* Entries have 16 bits of a count: counts, and what is evicted by them, are those of a table with all rows in
 * memory. Some keys are used so often that a batch passes what fits, and some more often than is counted. */
static void test_counts_beyond_16_bits(void **state) {
    (void)state;
    enum { N_KEYS = 150, N = 70 };
    static int64_t batch_keys[MOST];
    static uint32_t uses[MOST];
    for (int policy = RK_EVICTION_LRU; policy <= RK_EVICTION_NONE; policy++) {
        rk_dynamic_table *memory = make_table((rk_eviction_policy)policy, 60, NULL),
                         *disk = make_table((rk_eviction_policy)policy, 60, "elsewhere");
        rk_rng rng = {(uint64_t)policy, 9, 0};
        uint32_t most_over = 0;
        assert_true(disk->disk_keys && !disk->info && !memory->disk_keys);
        for (int batch = 0; batch < 200; batch++) {
            for (int64_t i = 0; i < N; i++) {
                static const uint32_t often[] = {1,       2,        500, 30000, UINT16_MAX, UINT16_MAX + 1,
                                                 1 << 20, INT32_MAX};
                batch_keys[i] = (int64_t)rk_rng_below(&rng, N_KEYS) - 20;
                uses[i] = often[rk_rng_below(&rng, batch < 100 ? 5 : 8)];
            }
            run_batch(memory, N, batch_keys, uses);
            run_batch(disk, N, batch_keys, uses);
            uint32_t n_over = 0;
            for (int64_t key = -20; key < N_KEYS - 20; key++) {
                int64_t row = rk_dynamic_find_row(memory, key), other = rk_dynamic_find_row(disk, key);
                assert_int_equal(row != 0, other != 0);
                if (!row) continue;
                assert_int_equal(memory->info[row].count, rk_dynamic_count_of_row(disk, other));
                assert_int_equal(memory->info[row].last_batch, *rk_dynamic_last_batch(disk, other));
                n_over += memory->info[row].count > UINT16_MAX;
            }
            assert_int_equal(disk->counts_over.n_counted, n_over);
            if (n_over > most_over) most_over = n_over;
        }
        assert_true(most_over > 20 && memory->n_keys == disk->n_keys);
        assert_memory_equal(&memory->totals, &disk->totals, sizeof memory->totals);
        rk_dynamic_free(memory);
        rk_dynamic_free(disk);
    }
}

/* A batch finds a row again where it has met so many others meanwhile that it has forgotten the key: a count
 * passes what an entry has room for by uses that are found one by one. */
static void test_counts_of_rows_found_again(void **state) {
    (void)state;
    enum { N_OTHERS = 2000, N_HOT = 40, N = N_HOT + N_OTHERS + N_HOT };
    static int64_t batch_keys[N];
    static uint32_t uses[N];
    for (int n_hot = 1; n_hot <= N_HOT; n_hot += 13) {
        rk_dynamic_table *t = make_table(RK_EVICTION_NONE, 2 * MOST, "elsewhere");
        int n = n_hot + N_OTHERS;
        for (int i = 0; i < n; i++) {
            batch_keys[i] = i;
            uses[i] = i < n_hot ? UINT16_MAX - 1 : 1;
            if (i < n_hot) batch_keys[n + i] = i;
        }
        run_batch(t, n, batch_keys, uses);
        assert_int_equal(t->counts_over.n_counted, 0);
        run_batch(t, n + n_hot, batch_keys, NULL);
        assert_int_equal(t->counts_over.n_counted, n_hot);
        for (int i = 0; i < n_hot; i++)
            assert_int_equal(rk_dynamic_count_of_row(t, rk_dynamic_find_row(t, i)), UINT16_MAX + 1);
        rk_dynamic_free(t);
    }
}

/* The first and the last hash of each bucket, of any number of them. */
static void test_bounds_of_buckets(void **state) {
    (void)state;
    static const int64_t numbers[] = {1, 2, 3, 7, 256, 1000, 65536, 65537};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        rk_dynamic_table *t;
        rk_dynamic_config config = {.max_capacity = 10 * numbers[i],
                                    .n_buckets = numbers[i],
                                    .evict_to = 1,
                                    .min_count = 1,
                                    .probability = 1,
                                    .storage = "elsewhere"};
        OK(rk_dynamic_create(&config, 1, 2, &t));
        for (int64_t b = 0; b < numbers[i]; b += b < 300 ? 1 : 977) {
            uint64_t first = t->disk_keys[b].first_hash,
                     last = (b + 1 < numbers[i] ? t->disk_keys[b + 1].first_hash : 0) - 1;
            const int64_t batch_keys[] = {rk_key_of_hash(first), rk_key_of_hash(last)};
            assert_true(rk_dynamic_bucket_of_key(&config, batch_keys[0]) == b);
            assert_true(rk_dynamic_bucket_of_key(&config, batch_keys[1]) == b);
            run_batch(t, 2, batch_keys, NULL);
            assert_true(rk_dynamic_find_row(t, batch_keys[0]) && rk_dynamic_find_row(t, batch_keys[1]));
        }
        rk_dynamic_free(t);
    }
}

static void test_without_memory(void **state) {
    (void)state;
    rk_disk_keys keys = make_bucket(3);
    n_known = 0;
    OK(rk_disk_keys_reserve(&keys, 50, 62));
    for (int i = 0; i < 50; i++) insert(&keys, (uint64_t)i << 24, i);
    rk_alloc_fail_after(1, false);
    assert_int_equal(rk_disk_keys_reserve(&keys, 100, 62), RK_NO_MEMORY);
    rk_alloc_fail_after(2, false); /* of a slab, after some blocks of the one before were taken */
    assert_int_equal(rk_disk_keys_reserve(&keys, 31 * RK_SLAB_BLOCKS + 100, 62), RK_NO_MEMORY);
    assert_int_equal(rk_disk_key_pool_bytes(keys.pool), keys.n_blocks * keys.pool->block_bytes);
    rk_alloc_fail_after(1, false);
    assert_int_equal(rk_disk_keys_rebuild(&keys), RK_NO_MEMORY);
    rk_alloc_fail_after(0, false);
    check(&keys, true);
    assert_int_equal(rk_disk_keys_reserve(&keys, UINT32_MAX, UINT32_MAX), RK_NO_MEMORY);
    release(&keys);
}

/* A batch that has no memory to rebuild all buckets leaves some rebuilt, and then other keys are loaded, few
 * of them first: the others do not all belong where these few do. */
static void test_load_after_a_failed_rebuild(void **state) {
    (void)state;
    enum { N = 2000 };
    static int64_t batch_keys[N];
    for (int i = 0; i < N; i++) batch_keys[i] = i;
    rk_dynamic_table *t = make_table(RK_EVICTION_NONE, MOST, "elsewhere");
    run_batch(t, N / 4, batch_keys, NULL);
    run_batch(t, N / 2, batch_keys, NULL);
    assert_int_equal(rk_dynamic_count_stale_buckets(t), 2); /* which grew */
    OK(rk_dynamic_rebuild_stale_bucket(t, 0));
    rk_dynamic_begin_loading(t);
    OK(rk_dynamic_load_keys(t, 0, N, batch_keys, 10));
    OK(rk_dynamic_load_keys(t, 10, N, batch_keys + 10, N - 10));
    assert_int_equal(rk_dynamic_count_stale_buckets(t), 0);
    for (int b = 0; b < 2; b++) assert_int_equal(t->disk_keys[b].n_homes, t->disk_keys[b].n_blocks);
    OK(rk_dynamic_finish_loading(t));
    run_batch(t, N, batch_keys, NULL);
    assert_int_equal(t->n_keys, N);
    rk_dynamic_free(t);
}

static void load_rows(rk_dynamic_table *t, const rk_key_info *loaded, int n) {
    static int64_t loaded_keys[MOST];
    for (int i = 0; i < n; i++) loaded_keys[i] = loaded[i].key;
    rk_dynamic_begin_loading(t);
    if (!t->disk_keys) OK(rk_dynamic_grow_rows(t, t->n_shared + n));
    OK(rk_dynamic_load_keys(t, 0, n, loaded_keys, n));
    for (int i = 0; i < n; i++) {
        t->info[t->n_shared + i].last_batch = loaded[i].last_batch;
        t->info[t->n_shared + i].count = loaded[i].count;
    }
    t->n_batches = 1000;
    OK(rk_dynamic_finish_loading(t));
}

/* Keys in any order, counts that entries have no room for, and numbers that no table has. */
static void test_loaded_rows(void **state) {
    (void)state;
    static rk_key_info loaded[MOST];
    int before = rk_parallel_threads();
    for (int n_threads = 1; n_threads <= 4; n_threads += 3)
        for (int n = 1; n < MOST; n = 7 * n + 300) {
            OK(rk_parallel_set_threads(n_threads));
            rk_dynamic_table *memory = make_table(RK_EVICTION_LRU, MOST, NULL),
                             *disk = make_table(RK_EVICTION_LRU, MOST, "elsewhere");
            rk_rng rng = {(uint64_t)n, 11, 0};
            for (int i = 0; i < n; i++)
                loaded[i] = (rk_key_info){(int64_t)rk_rng_next(&rng), (int32_t)rk_rng_below(&rng, 1010) - 5,
                                          (int32_t)rk_rng_below(&rng, 140000) - 10};
            load_rows(memory, loaded, n);
            load_rows(disk, loaded, n);
            assert_true(!disk->info && disk->n_keys == n);
            uint32_t n_over = 0;
            for (int i = 0; i < n; i++) {
                int64_t row = rk_dynamic_find_row(memory, loaded[i].key),
                        other = rk_dynamic_find_row(disk, loaded[i].key);
                assert_true(row && other);
                assert_int_equal(memory->info[row].count, rk_dynamic_count_of_row(disk, other));
                assert_int_equal(memory->info[row].last_batch, *rk_dynamic_last_batch(disk, other));
                assert_in_range(memory->info[row].last_batch, 1, 1000);
                n_over += memory->info[row].count > UINT16_MAX;
            }
            assert_int_equal(disk->counts_over.n_counted, n_over);
            rk_dynamic_free(memory);
            rk_dynamic_free(disk);
        }
    OK(rk_parallel_set_threads(before));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_a_list),
        cmocka_unit_test(test_growth_behind_wrapped_keys),
        cmocka_unit_test(test_many_keys_at_once),
        cmocka_unit_test(test_bytes_of_a_full_bucket),
        cmocka_unit_test(test_key_of_hash),
        cmocka_unit_test(test_counts_beyond_16_bits),
        cmocka_unit_test(test_counts_of_rows_found_again),
        cmocka_unit_test(test_bounds_of_buckets),
        cmocka_unit_test(test_load_after_a_failed_rebuild),
        cmocka_unit_test(test_loaded_rows),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
