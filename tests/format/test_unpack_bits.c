/* Numbers of any width back out of their bits: every version against one number at a time, in memory that
 * ends with them. */
#include "fixture.h"

#include "base/thread/instruction_set.h"
#include "format/unpack_bits.h"

static uint64_t number_at(const uint8_t *data, uint64_t bits, uint64_t i) {
    uint64_t number = 0;
    for (uint64_t b = 0; b < bits; b++)
        number |= (uint64_t)(data[(i * bits + b) / 8] >> (i * bits + b) % 8 & 1) << b;
    return number;
}

static void check(rk_packed_range got, rk_packed_range expected) {
    assert_true(got.least == expected.least && got.greatest == expected.greatest);
}

static void compare(rk_rng *rng, int bits, int64_t n) {
    const uint64_t base = rk_rng_below(rng, UINT64_MAX);
    const size_t n_bytes = ((size_t)n * (size_t)bits + 7) / 8;
    uint8_t *data = malloc(n_bytes + !n_bytes);
    int64_t *expected = malloc(((size_t)n + 1) * sizeof *expected),
            *got = malloc(((size_t)n + 1) * sizeof *got);
    rk_packed_range range = {UINT64_MAX, 0};
    for (size_t i = 0; i < n_bytes; i++) data[i] = (uint8_t)draw(rng, 256);
    for (int64_t i = 0; i < n; i++) {
        uint64_t number = number_at(data, (uint64_t)bits, (uint64_t)i);
        expected[i] = (int64_t)(base + number);
        range.least = number < range.least ? number : range.least;
        range.greatest = number > range.greatest ? number : range.greatest;
    }
    const rk_packed_ints packed = {data, n_bytes, bits, base};
    check(rk_unpack_bits_scalar(&packed, n, got), range);
    assert_memory_equal(got, expected, (size_t)n * sizeof *got);
    memset(got, 0, (size_t)n * sizeof *got);
    check(rk_unpack_bits(&packed, n, got), range);
    assert_memory_equal(got, expected, (size_t)n * sizeof *got);
#ifdef __x86_64__
    if (bits <= RK_UNPACK_AVX2_BITS && rk_cpu_has_isa(RK_ISA_AVX2)) {
        int64_t n_done;
        memset(got, 0, (size_t)n * sizeof *got);
        rk_unpack_bits_avx2(&packed, n, got, &n_done);
        assert_true(n_done <= n && n_done % 8 == 0 && (n < 200 || n_done > n - 160));
        assert_memory_equal(got, expected, (size_t)n_done * sizeof *got);
    }
#endif
    free(data);
    free(expected);
    free(got);
}

static void test_versions(void **state) {
    (void)state;
    rk_rng rng = {5, 1, 0};
    for (int bits = 1; bits <= 56; bits++)
        for (int64_t n = 0; n < 500; n += n < 70 ? 1 : 61) compare(&rng, bits, n);
}

/* A column without values has no data. */
static void test_no_data(void **state) {
    (void)state;
    for (int bits = 1; bits <= 56; bits++) {
        const rk_packed_ints none = {NULL, 0, bits, 7};
        check(rk_unpack_bits(&none, 0, NULL), (rk_packed_range){UINT64_MAX, 0});
        check(rk_unpack_bits_scalar(&none, 0, NULL), (rk_packed_range){UINT64_MAX, 0});
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_versions), cmocka_unit_test(test_no_data)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
