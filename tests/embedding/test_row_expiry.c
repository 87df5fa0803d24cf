/* When rows of a dynamic table expire: by batches, by the time of the stream, and what `keep` holds back. */
#include "embedding/reference_run.h"

/* Rows that expire, beside eviction: turns of one batch and of several, and buckets that keep rows. */
static void test_rows_that_expire(void **state) {
    (void)state;
    static const int64_t ttls[] = {1, 3, 8, 17, 30};
    for (int policy = RK_EVICTION_LRU; policy <= RK_EVICTION_NONE; policy++)
        for (size_t i = 0; i < sizeof ttls / sizeof *ttls; i++)
            for (int64_t keep = 0; keep <= 100; keep += 50) {
                rk_dynamic_config config = {.max_capacity = 120,
                                            .n_buckets = 1 + 2 * (int64_t)i,
                                            .policy = policy,
                                            .evict_to = 0.7,
                                            .ttl_steps = ttls[i],
                                            .keep = keep,
                                            .min_count = 1 + keep / 50,
                                            .probability = 1};
                run_against_reference(config, 1, 20, 60);
            }
}

/* A key goes when it was unused for ttl_steps batches, or an eighth later, and not before. */
static void test_when_rows_expire(void **state) {
    (void)state;
    static const int64_t ttls[] = {1, 4, 15, 40};
    for (size_t i = 0; i < sizeof ttls / sizeof *ttls; i++) {
        rk_dynamic_config config = {.max_capacity = 300,
                                    .n_buckets = 9,
                                    .evict_to = 1,
                                    .ttl_steps = ttls[i],
                                    .min_count = 1,
                                    .probability = 1};
        rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_SGD, 1);
        for (int64_t key = 0; key < 100; key++) keys[key] = key;
        train_step(e, 100, keys);
        keys[0] = 1000;
        for (int64_t unused = 1; unused <= ttls[i] + ttls[i] / 8; unused++) {
            train_step(e, 1, keys);
            if (unused < ttls[i]) assert_int_equal(dynamic_of(e)->n_keys, 101);
        }
        assert_int_equal(dynamic_of(e)->n_keys, 1);
        assert_true(row_of(e, 1000) > 0);
        assert_int_equal(dynamic_of(e)->totals.n_evicted, 100);
        rk_embeddings_free(e);
    }
}

/* A key goes when the stream is `ttl` seconds further, and at most an eighth, a 64th and a batch later. Times
 * before the latest one change nothing. */
static void expire_by_time(int64_t ttl, double seconds, int64_t n_buckets) {
    rk_dynamic_config config = {.max_capacity = 3000,
                                .n_buckets = n_buckets,
                                .evict_to = 1,
                                .ttl = ttl,
                                .min_count = 1,
                                .probability = 1};
    const double most = (double)ttl * (1 + 1 / 8.0 + 1 / 64.0) + seconds, start = 1.7e9;
    rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_SGD, 1);
    for (int64_t key = 0; key < 100; key++) keys[key] = key;
    stream_time = start;
    train_step(e, 100, keys);
    keys[0] = 1000;
    for (double unused = seconds; unused < most + seconds; unused += seconds) {
        stream_time = start + unused;
        train_step(e, 1, keys);
        stream_time = start - 10 * (double)ttl;
        train_step(e, 1, keys);
        if (unused < (double)ttl - 1e-5) assert_int_equal(dynamic_of(e)->n_keys, 101);
    }
    assert_int_equal(dynamic_of(e)->n_keys, 1);
    assert_true(row_of(e, 1000) > 0);
    assert_int_equal(dynamic_of(e)->totals.n_evicted, 100);
    stream_time = -1;
    rk_embeddings_free(e);
}

static void test_when_rows_expire_by_time(void **state) {
    (void)state;
    for (int64_t n_buckets = 1; n_buckets <= 100; n_buckets *= 10) {
        expire_by_time(1, 0.01, n_buckets);
        expire_by_time(60, 1, n_buckets);
        expire_by_time(60, 7.3, n_buckets);
        expire_by_time(60, 100, n_buckets);
        expire_by_time(100000, 900.25, n_buckets);
        expire_by_time(10000000, 3e6, n_buckets);
    }
}

/* Batches go on and time does not, or there is none: no row is too old. */
static void test_time_that_stands_still(void **state) {
    (void)state;
    rk_dynamic_config config = {
        .max_capacity = 300, .n_buckets = 3, .evict_to = 1, .ttl = 5, .min_count = 1, .probability = 1};
    rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_SGD, 1);
    stream_time = 100;
    for (int64_t key = 0; key < 200; key++) train_step(e, 1, &key);
    assert_int_equal(dynamic_of(e)->n_keys, 200);
    stream_time = 104.5;
    for (int64_t key = 300; key < 340; key++) train_step(e, 1, &key);
    assert_int_equal(dynamic_of(e)->n_keys, 240);
    stream_time = 1000;
    train_step(e, 1, &(int64_t){7});
    assert_int_equal(dynamic_of(e)->n_keys, 1);
    stream_time = -1;
    rk_embeddings_free(e);
}

/* Rows go by the shorter of both. */
static void test_time_and_batches(void **state) {
    (void)state;
    for (int64_t ttl = 4; ttl <= 64; ttl *= 4) {
        rk_dynamic_config config = {.max_capacity = 300,
                                    .n_buckets = 5,
                                    .evict_to = 1,
                                    .ttl_steps = 16,
                                    .ttl = ttl,
                                    .min_count = 1,
                                    .probability = 1};
        rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_SGD, 1); /* a second a batch */
        for (int64_t key = 0; key < 100; key++) keys[key] = key;
        train_step(e, 100, keys);
        int64_t unused = 1, shorter = ttl < 16 ? ttl : 16;
        for (; dynamic_of(e)->n_keys > 1; unused++) train_step(e, 1, &(int64_t){1000});
        assert_in_range(unused, shorter, shorter + shorter / 4 + 1);
        rk_embeddings_free(e);
    }
}

/* All rows are of one age, and would go at once. */
static void keep_rows(int64_t ttl_steps, int64_t ttl) {
    rk_dynamic_config config = {.max_capacity = 300,
                                .n_buckets = 7,
                                .evict_to = 0.1,
                                .ttl_steps = ttl_steps,
                                .ttl = ttl,
                                .keep = 40,
                                .min_count = 1,
                                .probability = 1};
    rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_SGD, 1);
    for (int64_t key = 0; key < 200; key++) keys[key] = key;
    train_step(e, 200, keys);
    for (int i = 0; i < 20; i++) train_step(e, 0, keys);
    assert_int_equal(dynamic_of(e)->n_keys, 40);
    for (int64_t key = 0; key < 900; key++) train_step(e, 1, &key); /* nor does a full bucket go below */
    assert_true(dynamic_of(e)->n_keys >= 40);
    rk_embeddings_free(e);
}

static void test_rows_that_are_kept(void **state) {
    (void)state;
    keep_rows(3, 0);
    keep_rows(0, 3);
    keep_rows(0, 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_that_expire),         cmocka_unit_test(test_when_rows_expire),
        cmocka_unit_test(test_when_rows_expire_by_time), cmocka_unit_test(test_time_that_stands_still),
        cmocka_unit_test(test_time_and_batches),         cmocka_unit_test(test_rows_that_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
