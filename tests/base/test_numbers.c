/* Random numbers, hashes, text to numbers, 16-bit floats. */
#include "testing.h"

#include <float.h>
#include <math.h>

#include "base/float16.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/text/number_text.h"
#include "base/text/text.h"

static rk_span span(const char *text) {
    return (rk_span){text, strlen(text)};
}

/* Known answers of Philox4x32-10 from the Random123 distribution's kat_vectors. */
static void test_philox(void **state) {
    (void)state;
    uint32_t out[4];
    rk_rng_draw_four_words(0, 0, 0, out);
    assert_int_equal(out[0], 0x6627e8d5);
    assert_int_equal(out[1], 0xe169c58d);
    rk_rng_draw_four_words(0xffffffffffffffffu, 0xffffffffffffffffu, 0xffffffffffffffffu, out);
    assert_int_equal(out[0], 0x408f276d);
    assert_int_equal(out[1], 0x41c83b0e);
}

static void test_rng_laws(void **state) {
    (void)state;
    rk_rng rng = {1, 2, 0};
    double sum = 0, squares = 0;
    for (int i = 0; i < 100000; i++) {
        double x = rk_rng_normal(&rng);
        sum += x;
        squares += x * x;
    }
    assert_true(fabs(sum / 100000) < 0.02 && fabs(squares / 100000 - 1) < 0.02);
    int counts[7] = {0};
    for (int i = 0; i < 70000; i++) counts[rk_rng_below(&rng, 7)]++;
    for (int i = 0; i < 7; i++) assert_true(abs(counts[i] - 10000) < 500);
    uint32_t order[1000], seen[1000] = {0};
    rk_rng_permutation(3, 4, order, 1000);
    for (int i = 0; i < 1000; i++) seen[order[i]]++;
    for (int i = 0; i < 1000; i++) assert_int_equal(seen[i], 1);
}

static void test_hashes(void **state) {
    (void)state;
    assert_int_equal(rk_crc32c(0, "123456789", 9), 0xe3069283); /* the catalogue's check value of CRC-32C */
    uint32_t in_parts = rk_crc32c(rk_crc32c(0, "1234", 4), "56789", 5);
    assert_int_equal(in_parts, 0xe3069283);
    static uint8_t long_one[10007];
    for (size_t i = 0; i < sizeof long_one; i++) long_one[i] = (uint8_t)((uint32_t)i * 2654435761u >> 21);
    for (size_t n = 0; n < sizeof long_one;
         n += 1 + n / 7) { /* in stretches of any length as a byte at a time */
        uint32_t whole = rk_crc32c(7, long_one, n), slowly = 7;
        for (size_t i = 0; i < n; i++) slowly = rk_crc32c(slowly, long_one + i, 1);
        assert_int_equal(whole, slowly);
    }
    assert_true(rk_hash_bytes("", 0, 0) == 0xef46db3751d8e999u); /* xxHash's own test value */
    assert_true(rk_hash_i64(-120, 5) == rk_hash_bytes("-120", 4, 5));
    assert_true(rk_hash_i64(INT64_MIN, 5) == rk_hash_bytes("-9223372036854775808", 20, 5));
    assert_true(rk_hash_i64(0, 5) == rk_hash_bytes("0", 1, 5));
    assert_true(rk_hash_bucket(UINT64_MAX, 10) == 9 && rk_hash_bucket(0, 10) == 0);
}

static void test_numbers_from_text(void **state) {
    (void)state;
    int64_t i;
    double x;
    assert_true(rk_parse_i64(span(" -9223372036854775808 "), &i) && i == INT64_MIN);
    assert_true(rk_parse_i64(span("9223372036854775807"), &i) && i == INT64_MAX);
    assert_false(rk_parse_i64(span("9223372036854775808"), &i));
    assert_false(rk_parse_i64(span("-9223372036854775809"), &i));
    for (size_t n = 1; n <= 17; n++) { /* each length, and each place of a byte that is no digit */
        char digits[] = "98765432109876543";
        digits[n] = 0;
        assert_true(rk_parse_i64(span(digits), &i) && i == strtoll(digits, NULL, 10));
        for (size_t at = 0; at < n; at++)
            for (int byte = 1; byte < 256; byte++) {
                char kept = digits[at];
                digits[at] = (char)byte;
                bool digit = byte >= '0' && byte <= '9',
                     sign = n > 1 && at == 0 && (byte == '-' || byte == '+');
                bool blank =
                    n > 1 && (at == 0 || at == n - 1) && (byte == ' ' || byte == '\t' || byte == '\r');
                assert_int_equal(rk_parse_i64(span(digits), &i), digit || sign || blank);
                if (digit || sign) assert_true(i == strtoll(digits, NULL, 10));
                char within[40] = "9999999999";
                int64_t same;
                memcpy(within + n % 11, digits, n);
                assert_int_equal(rk_parse_i64_within(within, n % 11, n, &same), digit || sign || blank);
                if (digit || sign) assert_true(i == same);
                digits[at] = kept;
            }
    }
    static const char *const exact[] = {".5",
                                        "5.",
                                        "-0",
                                        "+1.25",
                                        "1e22",
                                        "1e23",
                                        "123456789012345e-22",
                                        "9007199254740993", /* halfway; a little more, a little less */
                                        "9007199254740993.001",
                                        "9007199254740992.999",
                                        "4503599627370497.5",
                                        "-.1000000000000000055",
                                        "9999999999999999999",
                                        "0.9999999999999999999",
                                        "0.0000000000000000001",
                                        "0.1e1",
                                        "1E+05",
                                        "000000000000000001"};
    for (size_t k = 0; k < sizeof exact / sizeof exact[0]; k++) {
        assert_true(rk_parse_f64(span(exact[k]), &x));
        assert_true(x == strtod(exact[k], NULL) && signbit(x) == signbit(strtod(exact[k], NULL)));
    }
    static const char *const not_numbers[] = {"",    " ",   "-",     "1x",    "0x10", "nan",     "inf",
                                              "1e",  "--1", "1.2.3", "1e999", "1 2",  ".",       "e5",
                                              "1.e", "1e+", ".e1",   "1/2",   "1:2",  "1.2e3.4", "1e2e3"};
    for (size_t k = 0; k < sizeof not_numbers / sizeof not_numbers[0]; k++) {
        assert_false(rk_parse_f64(span(not_numbers[k]), &x));
        assert_false(rk_parse_i64(span(not_numbers[k]), &i));
    }
    rk_rng rng = {9, 9, 0};
    for (int k = 0; k < 20000; k++) { /* reading back any double is exact */
        char text[40];
        double value = rk_rng_normal(&rng) * pow(10, (double)rk_rng_below(&rng, 60) - 30);
        int digits = 1 + (int)rk_rng_below(&rng, 17);
        snprintf(text, sizeof text, k % 2 ? "%.*g" : "%.*f", digits, value);
        assert_true(rk_parse_f64(span(text), &x));
        assert_true(x == strtod(text, NULL));
    }
    for (int k = 0; k < 50000; k++) { /* any digits, or halfway between neighbours where 19 are enough */
        char text[50];
        uint64_t bits = (uint64_t)1 << 53 | rk_rng_below(&rng, (uint64_t)1 << 53);
        if (k % 2)
            snprintf(text, sizeof text, "%llu.%s", (unsigned long long)(bits | 1), k % 3 ? "00" : "001");
        else
            snprintf(text, sizeof text, "%llu.%llu", (unsigned long long)(bits >> rk_rng_below(&rng, 54)),
                     (unsigned long long)(rk_rng_below(&rng, UINT64_MAX) >> rk_rng_below(&rng, 64)));
        assert_true(rk_parse_f64(span(text), &x));
        assert_true(x == strtod(text, NULL));
    }
}

static void test_numbers_to_text(void **state) {
    (void)state;
    rk_rng rng = {5, 5, 0};
    for (int k = 0; k < 200000; k++) { /* every length, and numbers around the powers of ten */
        uint64_t power = 1;
        for (int i = k % 20; i > 0; i--) power *= 10;
        uint64_t bits = k % 3 ? power + rk_rng_below(&rng, 3) - 1 : rk_rng_below(&rng, UINT64_MAX) >> k % 64;
        int64_t value = (int64_t)bits;
        if (k % 2) value = (int64_t)-bits;
        char room[RK_I64_BYTES], expected[32];
        int n = snprintf(expected, sizeof expected, "%lld", (long long)value);
        rk_span text = rk_format_i64(value, room);
        assert_int_equal(text.n_bytes, n);
        assert_memory_equal(text.data, expected, (size_t)n);
    }
}

/* The C library's text of as few digits as read back; of a whole number below 2^63 all of them. */
static void check_shortest_text(double value, bool is_f32) {
    char expected[64], room[RK_NUMBER_BYTES];
    double back = 0;
    bool is_whole = fabs(value) < 0x1p63 && floor(value) == value;
    int n = snprintf(expected, sizeof expected, "%.0f", value);
    for (int digits = FLT_DIG; !is_whole && digits <= (is_f32 ? 9 : 17) && back != value; digits++) {
        n = snprintf(expected, sizeof expected, "%.*g", digits, value);
        back = strtod(expected, NULL);
        if (is_f32) back = (double)(float)back;
    }
    rk_span text = is_f32 ? rk_format_f32((float)value, room) : rk_format_f64(value, room);
    assert_int_equal(text.n_bytes, n);
    assert_memory_equal(text.data, expected, (size_t)n);
    if (is_f32) assert_true(rk_f64_of_f32_text((float)value) == strtod(expected, NULL));
}

/* Any bits; what people write; fractions of few bits; the neighbours of powers of two. */
static double draw_number(rk_rng *rng, int kind) {
    uint64_t bits = (rk_rng_below(rng, UINT64_MAX) >> 12) | (1003 + rk_rng_below(rng, 72)) << 52;
    double value = 0;
    if (kind == 0) bits = rk_rng_below(rng, UINT64_MAX);
    memcpy(&value, &bits, sizeof value);
    if (kind == 2)
        value = (double)(rk_rng_below(rng, 100000000) >> rk_rng_below(rng, 27)) /
                pow(10, (double)rk_rng_below(rng, 15));
    if (kind == 3) value = ldexp((double)rk_rng_below(rng, 1024), -(int)rk_rng_below(rng, 30));
    if (kind == 4) value = nextafter(ldexp(1, (int)rk_rng_below(rng, 84) - 20), (double)rk_rng_below(rng, 2));
    return rk_rng_below(rng, 2) ? -value : value;
}

static void test_floats_to_text(void **state) {
    (void)state;
    static const double chosen[] = {0.0,    -0.0,         1e-4,    1e-5,    9.9999999e-5,      1e-11, 1e-6,
                                    0x1p63, 0x1p63 - 512, DBL_MIN, DBL_MAX, 8388607.5,         1e15,  1e22,
                                    1e23,   0.1 + 0.2,    2.5e-9,  1.0 / 3, 9007199254740991.5};
    rk_rng rng = {8, 5, 0};
    for (size_t i = 0; i < sizeof chosen / sizeof *chosen; i++) {
        check_shortest_text(chosen[i], false);
        if (chosen[i] < (double)FLT_MAX) check_shortest_text((double)(float)chosen[i], true);
    }
    for (int k = 0; k < 100000; k++) {
        double value = draw_number(&rng, k % 5);
        float narrow = (float)value;
        if (isfinite(value)) check_shortest_text(value, false);
        if (isfinite(narrow)) check_shortest_text((double)narrow, true);
    }
    char room[RK_NUMBER_BYTES];
    rk_span text = rk_format_f32(-NAN, room);
    assert_int_equal(text.n_bytes, 3);
    assert_memory_equal(text.data, "nan", 3);
    text = rk_format_f64(-(double)INFINITY, room);
    assert_int_equal(text.n_bytes, 4);
    assert_memory_equal(text.data, "-inf", 4);
    assert_true(isnan(rk_f64_of_f32_text(NAN)) && isinf(rk_f64_of_f32_text(-INFINITY)));
    assert_true(signbit(rk_f64_of_f32_text(-0.0f)));
}

static void test_memory_available(void **state) {
    (void)state;
    uint64_t bytes = rk_memory_available();
    assert_true(bytes > 1000000 && bytes < (uint64_t)1 << 50); /* of a machine that runs tests */
}

static void test_nearest(void **state) {
    (void)state;
    static const char *const names[] = {"learning_rate", "epochs", "batch_size", "dim"};
    assert_string_equal(rk_nearest_name("learning_rat", names, 4), "learning_rate");
    assert_string_equal(rk_nearest_name("epcohs", names, 4), "epochs");
    assert_string_equal(rk_nearest_name("dmi", names, 4), "dim");
    assert_string_equal(rk_nearest_name("lr", names, 4), "learning_rate"); /* its initials */
    assert_null(rk_nearest_name("optimizer", names, 4));
    static const char *const short_names[] = {"l1", "l2", "rate", "cpu", "cuda"};
    assert_null(rk_nearest_name("lr", short_names, 5)); /* one letter off, and of another meaning */
    assert_null(rk_nearest_name("name", short_names, 5));
    assert_string_equal(rk_nearest_name("gpu", short_names, 5), "cuda"); /* as others call it */
    assert_string_equal(rk_nearest_name("batchSize", names, 4), "batch_size");
    assert_string_equal(rk_nearest_name("max-epochs", names, 4), "epochs");
}

static void test_bf16(void **state) {
    (void)state;
    assert_int_equal(rk_bf16_from_f32(1.0f), 0x3F80);
    assert_int_equal(rk_bf16_from_f32(rk_f32_from_bits(0x3F808000)), 0x3F80); /* a tie goes to even */
    assert_int_equal(rk_bf16_from_f32(rk_f32_from_bits(0x3F818000)), 0x3F82);
    assert_true(isnan(rk_bf16_to_f32(rk_bf16_from_f32(NAN))));
    double sum = 0;
    float x = 1.0f + 0x1p-9f;
    for (uint32_t r = 0; r < 65536; r++) sum += rk_bf16_to_f32(rk_bf16_from_f32_stochastic(x, r));
    assert_true(fabs(sum / 65536 - x) < 1e-7);
    assert_int_equal(rk_bf16_from_f32_stochastic(3.4e38f, 65535), 0x7F7F);
}

/* What is finite stays so; what is not is not hidden. */
static void test_finite_halves(void **state) {
    (void)state;
    assert_int_equal(rk_f16_from_f32_finite(65519.0f), 0x7BFF);
    assert_int_equal(rk_f16_from_f32_finite(65520.0f), 0x7BFF); /* to nearest: infinity */
    assert_int_equal(rk_f16_from_f32_finite(-1e30f), 0xFBFF);
    assert_int_equal(rk_bf16_from_f32_finite(FLT_MAX), 0x7F7F);
    assert_int_equal(rk_bf16_from_f32_finite(-FLT_MAX), 0xFF7F);
    assert_int_equal(rk_f16_from_f32_finite(INFINITY), 0x7C00);
    assert_int_equal(rk_bf16_from_f32_finite(-INFINITY), 0xFF80);
    assert_true(isnan(rk_f16_to_f32(rk_f16_from_f32_finite(NAN))) &&
                isnan(rk_bf16_to_f32(rk_bf16_from_f32_finite(-NAN))));
    for (float x = 1e-30f; x < 6e4f; x *= 1.37f) {
        assert_int_equal(rk_f16_from_f32_finite(x), rk_f16_from_f32(x));
        assert_int_equal(rk_bf16_from_f32_finite(-x), rk_bf16_from_f32(-x));
    }
}

static void test_f16(void **state) {
    (void)state;
    for (uint32_t half = 0; half < 65536; half++) { /* every f16 value comes back */
        float value = rk_f16_to_f32((uint16_t)half);
        if (isnan(value)) continue;
        assert_int_equal(rk_f16_from_f32(value), half);
        if (!isinf(value)) assert_int_equal(rk_f16_from_f32_stochastic(value, 12345), half);
    }
    rk_rng rng = {4, 4, 0};
    for (int k = 0; k < 20000; k++) { /* nearest: no f16 neighbour is closer */
        float value = (float)(rk_rng_normal(&rng) * pow(2, (double)rk_rng_below(&rng, 44) - 30));
        uint16_t half = rk_f16_from_f32(value);
        float back = rk_f16_to_f32(half);
        if (isinf(back)) continue;
        assert_true(fabsf(value - back) <= fabsf(value - rk_f16_to_f32((uint16_t)(half + 1))));
        if (half & 0x7FFF)
            assert_true(fabsf(value - back) <= fabsf(value - rk_f16_to_f32((uint16_t)(half - 1))));
    }
    static const float values[] = {1.0003f, -0.3333f, 3e-6f, 1.1e-7f, -2e-8f};
    for (int v = 0; v < 5; v++) {
        double sum = 0;
        for (uint32_t r = 0; r < 65536; r++) sum += rk_f16_to_f32(rk_f16_from_f32_stochastic(values[v], r));
        assert_true(fabs(sum / 65536 - values[v]) < 1e-4 * fabs(values[v]) + 1e-12);
    }
    for (int k = 0; k < 20000; k++) { /* up if the part that is lost and random / 2^16 are a step */
        float value = (float)ldexp(1 + rk_rng_uniform(&rng), (int)rk_rng_below(&rng, 55) - 40);
        uint16_t below = rk_f16_from_f32(value);
        if (rk_f16_to_f32(below) > value) below--;
        double low = rk_f16_to_f32(below), step = rk_f16_to_f32((uint16_t)(below + 1)) - low,
               lost = (value - low) / step * 65536;
        int64_t near = 65535 - (int64_t)lost + (int64_t)rk_rng_below(&rng, 3);
        uint32_t random = near < 0 ? 0 : near > 65535 ? 65535 : (uint32_t)near;
        assert_int_equal(rk_f16_from_f32_stochastic(value, random), below + (floor(lost) + random >= 65536));
    }
    assert_int_equal(rk_f16_from_f32(70000.0f), 0x7C00);
    assert_int_equal(rk_f16_from_f32_stochastic(-70000.0f, 0), 0xFBFF);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox),
        cmocka_unit_test(test_rng_laws),
        cmocka_unit_test(test_hashes),
        cmocka_unit_test(test_numbers_from_text),
        cmocka_unit_test(test_numbers_to_text),
        cmocka_unit_test(test_floats_to_text),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_memory_available),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_f16),
        cmocka_unit_test(test_finite_halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
