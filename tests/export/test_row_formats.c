/* Rows as FBGEMM quantizes them, to the byte (tests/golden/make_fbgemm_rows.py), and what cannot be. */
#include "testing.h"

#include <math.h>

#include "base/file/file.h"
#include "base/float16.h"
#include "base/memory.h"
#include "embedding/config/row_formats.h"

enum { MAX_DIM = 64, MAX_BYTES = MAX_DIM + 8 };

static void check_line(char *line) {
    char *at;
    long bits = strtol(line, &at, 10), dim = strtol(at, &at, 10);
    float row[MAX_DIM];
    unsigned char have[MAX_BYTES] = {0};
    int64_t failed;
    rk_export_rows rows = bits == 8 ? RK_EXPORT_ROWS_INT8 : RK_EXPORT_ROWS_INT4;
    for (long i = 0; i < dim; i++) {
        uint32_t value = (uint32_t)strtoul(at, &at, 16);
        memcpy(&row[i], &value, sizeof value);
    }
    at = strchr(at, ':') + 2;
    int64_t n_bytes = rk_row_format_columns(rows, dim);
    assert_int_equal(strcspn(at, "\n"), 2 * n_bytes);
    rk_row_format_encode(rows, row, 1, dim, have, &failed);
    assert_int_equal(failed, -1);
    for (int64_t i = 0; i < n_bytes; i++) {
        char digits[3] = {at[2 * i], at[2 * i + 1], 0};
        if (have[i] != strtoul(digits, NULL, 16))
            fail_msg("%ld bits, byte %lld of %.200s", bits, (long long)i, line);
    }
}

static void test_golden(void **state) {
    (void)state;
    char *text;
    size_t n, n_lines = 0;
    OK(rk_file_read(RK_SOURCE_DIR "/tests/golden/fbgemm_rows.txt", &text, &n));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), n_lines++) check_line(line);
    assert_true(n_lines > 100);
    rk_free(text);
}

/* The first row that has no finite range is named; the other formats take it. */
static void test_not_finite(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    unsigned char out[4 * 4 * MAX_BYTES];
    int64_t failed;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        float rows[4][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {0, bad[i], 0, 0}, {bad[i], 0, 0, 0}};
        for (int format = RK_EXPORT_ROWS_F32; format <= RK_EXPORT_ROWS_INT4; format++) {
            rk_row_format_encode((rk_export_rows)format, rows[0], 4, 4, out, &failed);
            assert_int_equal(failed, format >= RK_EXPORT_ROWS_INT8 ? 2 : -1);
        }
    }
    float wide[1][2] = {{-3e38f, 3e38f}};
    rk_row_format_encode(RK_EXPORT_ROWS_INT8, wide[0], 1, 2, out, &failed);
    assert_int_equal(failed, 0);
}

/* Of an odd number of values, the last code's other half is 0. */
static void test_odd_int4(void **state) {
    (void)state;
    float row[3] = {0, 15, 7.4f};
    unsigned char out[6];
    int64_t failed;
    assert_int_equal(rk_row_format_columns(RK_EXPORT_ROWS_INT4, 3), 6);
    rk_row_format_encode(RK_EXPORT_ROWS_INT4, row, 1, 3, out, &failed);
    assert_memory_equal(out, ((unsigned char[]){0xf0, 0x07, 0x00, 0x3c, 0x00, 0x00}), 6);
}

/* f16 as everywhere else, of values of every kind. */
static void test_f16(void **state) {
    (void)state;
    enum { N = 1024 };
    float values[N];
    uint16_t have[N];
    int64_t failed;
    for (uint64_t first = 0; first >> 32 == 0; first += 4099ull * N) {
        for (uint64_t i = 0; i < N; i++) values[i] = rk_f32_from_bits((uint32_t)(first + 4099 * i));
        rk_row_format_encode(RK_EXPORT_ROWS_F16, values, 1, N, have, &failed);
        for (int i = 0; i < N; i++)
            if (have[i] != rk_f16_from_f32_finite(values[i]))
                fail_msg("%a is %04x, not %04x", (double)values[i], have[i],
                         rk_f16_from_f32_finite(values[i]));
    }
}

/* A batch without ids of a table has no bytes of it either; the undefined sanitizer looks on. */
static void test_no_rows(void **state) {
    (void)state;
    for (int rows = RK_EXPORT_ROWS_F32; rows <= RK_EXPORT_ROWS_INT4; rows++)
        rk_row_format_decode((rk_export_rows)rows, NULL, 0, MAX_DIM, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden), cmocka_unit_test(test_f16),
                                       cmocka_unit_test(test_not_finite), cmocka_unit_test(test_no_rows),
                                       cmocka_unit_test(test_odd_int4)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
