/* Sketches of counts, held against exact counts: what they may be off by (docs/dynamic_tables.md). */
#include "testing.h"

#include <math.h>

#include "base/memory.h"
#include "base/rng.h"
#include "embedding/dynamic/key_bucket.h"
#include "embedding/dynamic/key_sketch.h"

enum { N_ROWS = 1000, MIN_COUNT = 10, N_KEYS = 40000 };

static uint8_t cells[RK_SKETCH_PLACES * 4 * N_ROWS];
static int64_t load;
static uint32_t exact[N_KEYS];

static rk_key_sketch begin(bool is_bloom) {
    rk_key_sketch sketch = {cells, &load, (uint32_t)rk_sketch_width(is_bloom, N_ROWS), is_bloom};
    assert_true(rk_sketch_bytes(is_bloom, sketch.width) <= sizeof cells);
    memset(cells, 0, sizeof cells);
    memset(exact, 0, sizeof exact);
    load = 0;
    return sketch;
}

static uint64_t hash_of(int64_t key) {
    return rk_key_hash(key * 977);
}

static void add(const rk_key_sketch *sketch, int64_t key, uint32_t uses) {
    rk_key_sketch_add(sketch, hash_of(key), uses);
    exact[key] += uses;
}

/* Few keys often, many seldom. */
static int64_t draw_key(rk_rng *rng) {
    double u = rk_rng_uniform(rng);
    return (int64_t)(u * u * u * u * N_KEYS);
}

/* Until one use more would be too many. */
static int64_t fill(const rk_key_sketch *sketch, uint64_t seed) {
    rk_rng rng = {seed, 9, 0};
    int64_t n = 0, most = (int64_t)sketch->width * MIN_COUNT / 4;
    for (; sketch->is_bloom ? 5 * load < 2 * (int64_t)sketch->width - 20 : n < most; n++)
        add(sketch, draw_key(&rng), 1);
    rk_key_sketch_halve_if_full(sketch, MIN_COUNT);
    return n;
}

static void test_never_too_low(void **state) {
    (void)state;
    for (int is_bloom = 0; is_bloom < 2; is_bloom++) {
        rk_key_sketch sketch = begin(is_bloom);
        uint32_t most = is_bloom ? 15 : 255;
        (void)fill(&sketch, 1);
        for (int64_t key = 0; key < N_KEYS; key++)
            assert_true(rk_key_sketch_estimate(&sketch, hash_of(key)) >=
                        (exact[key] < most ? exact[key] : most));
    }
}

/* Cormode and Muthukrishnan: more than e N / width too high with a probability of at most e^-4, for N uses.
 */
static void test_error_of_count_min(void **state) {
    (void)state;
    int64_t n_beyond = 0, n_asked = 0, n_admitted = 0;
    for (uint64_t seed = 0; seed < 5; seed++) {
        rk_key_sketch sketch = begin(false);
        double bound = exp(1) * (double)fill(&sketch, seed) / sketch.width;
        assert_true(bound < 0.7 * MIN_COUNT);
        for (int64_t key = 0; key < N_KEYS; key++, n_asked++) {
            uint32_t uses = rk_key_sketch_estimate(&sketch, hash_of(key));
            n_beyond += exact[key] < 255 && uses > exact[key] + bound;
            n_admitted += exact[key] < MIN_COUNT && uses >= MIN_COUNT;
        }
    }
    assert_true((double)n_beyond <= exp(-4) * (double)n_asked);
    assert_true(n_admitted < n_asked / 100);
}

/* Bloom: a key that was never counted finds four counters above 0 with the fourth power of their share. */
static void test_error_of_bloom(void **state) {
    (void)state;
    enum { N_OTHERS = 200000 };
    rk_key_sketch sketch = begin(true);
    (void)fill(&sketch, 2);
    double share = (double)load / sketch.width, chance = pow(share, RK_SKETCH_PLACES);
    assert_true(share > 0.39 && share <= 0.4);
    int64_t n_found = 0;
    for (int64_t key = N_KEYS; key < N_KEYS + N_OTHERS; key++)
        n_found += rk_key_sketch_estimate(&sketch, hash_of(key)) > 0;
    double deviation = sqrt(N_OTHERS * chance);
    assert_true(fabs((double)n_found - N_OTHERS * chance) < 6 * deviation);
}

/* Many keys, once each: a sketch that is full forgets, and admits no key that it does not know. */
static void test_never_fails_open(void **state) {
    (void)state;
    for (int is_bloom = 0; is_bloom < 2; is_bloom++)
        for (int64_t min_count = 2; min_count <= 10; min_count += 8) {
            rk_key_sketch sketch = begin(is_bloom);
            int64_t n_wrong = 0, n = 500000;
            for (int64_t key = 0; key < n; key++) {
                n_wrong += rk_key_sketch_estimate(&sketch, hash_of(key)) + 1 >= min_count;
                rk_key_sketch_add(&sketch, hash_of(key), 1);
                rk_key_sketch_halve_if_full(&sketch, min_count);
            }
            assert_true((double)n_wrong < (min_count == 2 ? 0.04 : 1e-4) * (double)n);
        }
}

static void test_halving(void **state) {
    (void)state;
    for (int is_bloom = 0; is_bloom < 2; is_bloom++) {
        rk_key_sketch sketch = begin(is_bloom);
        for (int64_t key = 0; key < 10; key++) add(&sketch, key, (uint32_t)key + 1);
        load = 1000000; /* as if there were too much in it, once */
        int64_t before = load;
        rk_key_sketch_halve_if_full(&sketch, 4 * before / sketch.width - 1);
        if (!is_bloom) assert_int_equal(load, before / 2);
        for (int64_t key = 0; key < 10; key++)
            assert_int_equal(rk_key_sketch_estimate(&sketch, hash_of(key)), (key + 1) / 2);
    }
}

/* Counters stop at their largest number, and take no bit of their neighbours'. */
static void test_large_counts(void **state) {
    (void)state;
    for (int is_bloom = 0; is_bloom < 2; is_bloom++) {
        rk_key_sketch sketch = begin(is_bloom);
        add(&sketch, 1, 3);
        for (int i = 0; i < 3; i++) add(&sketch, 2, INT32_MAX);
        assert_int_equal(rk_key_sketch_estimate(&sketch, hash_of(2)), is_bloom ? 15 : 255);
        add(&sketch, 4, is_bloom ? 17 : 257);
        assert_int_equal(rk_key_sketch_estimate(&sketch, hash_of(4)), is_bloom ? 15 : 255);
        assert_int_equal(rk_key_sketch_estimate(&sketch, hash_of(1)), 3);
        assert_int_equal(rk_key_sketch_estimate(&sketch, hash_of(3)), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_too_low),  cmocka_unit_test(test_error_of_count_min),
        cmocka_unit_test(test_error_of_bloom), cmocka_unit_test(test_never_fails_open),
        cmocka_unit_test(test_halving),        cmocka_unit_test(test_large_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
