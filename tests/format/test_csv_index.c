/* The index of separators: every instruction set that this processor has against a plain loop, at odd sizes
 * and in memory that ends with the text. */
#include "fixture.h"

#include "base/thread/instruction_set.h"
#include "format/text/csv_index.h"

typedef size_t index_function(const char *data, size_t n_bytes, char separator, char quote, uint32_t *out);
static index_function *const versions[RK_ISA_COUNT] = {
    rk_csv_find_separators_scalar, rk_csv_find_separators_avx2, rk_csv_find_separators_avx512};

static void compare(rk_rng *rng, size_t n, char separator, char quote, uint64_t n_plain) {
    static const char special[] = {
        ',',  '\n', '"',        0,         '|',
        '\r', '\t', (char)0xac, (char)0x8a}; /* the last two are ',' and '\n' but for a bit */
    char *data = malloc(n + !n);
    uint32_t *expected = malloc((n + RK_CSV_INDEX_ROOM) * sizeof *expected),
             *got = malloc((n + RK_CSV_INDEX_ROOM) * sizeof *got);
    size_t n_expected = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t kind = draw(rng, n_plain + sizeof special);
        data[i] = kind < (int64_t)sizeof special ? special[kind] : (char)draw(rng, 256);
        if (data[i] == separator || data[i] == quote || data[i] == '\n' || data[i] == 0)
            expected[n_expected++] = (uint32_t)i;
    }
    for (int isa = 0; isa < RK_ISA_COUNT; isa++) {
        if (!rk_cpu_has_isa((rk_isa)isa)) continue;
        assert_int_equal(versions[isa](data, n, separator, quote, got), n_expected);
        assert_memory_equal(got, expected, n_expected * sizeof *got);
    }
    assert_int_equal(rk_csv_find_separators(data, n, separator, quote, got), n_expected);
    free(data);
    free(expected);
    free(got);
}

static void test_versions(void **state) {
    (void)state;
    rk_rng rng = {31, 1, 0};
    for (size_t n = 0; n < 700; n += n < 200 ? 1 : 37)
        for (int density = 0; density < 3; density++) {
            compare(&rng, n, ',', '"', (uint64_t[]){0, 10, 300}[density]);
            compare(&rng, n, '|', 0, (uint64_t[]){0, 10, 300}[density]);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_versions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
