/* Scales and ticks, escaping, and what charts make of values that are no numbers. */
#include "testing.h"

#include <math.h>

#include "base/memory.h"
#include "base/text/markup_escape.h"
#include "report/chart/chart.h"
#include "report/chart/axis_scale.h"
#include "report/chart/svg.h"

static void expect_ticks(double low, double high, bool log, int wanted, const char *expected) {
    rk_scale scale = {.low = low, .high = high, .log = log, .from = 0, .to = 100};
    rk_ticks ticks;
    char text[400] = "";
    rk_scale_ticks(&scale, wanted, &ticks);
    for (size_t i = 0; i < ticks.n; i++) {
        double place = rk_scale_position(&scale, ticks.values[i]);
        assert_true(place >= -1e-6 && place <= 100 + 1e-6);
        strcat(text, i ? " " : "");
        strcat(text, ticks.texts[i]);
    }
    assert_string_equal(text, expected);
}

static void test_ticks(void **state) {
    (void)state;
    expect_ticks(0, 1, false, 5, "0.0 0.2 0.4 0.6 0.8 1.0");
    expect_ticks(0.904, 0.921, false, 4, "0.905 0.910 0.915 0.920");
    expect_ticks(-3, 3, false, 6, "-3 -2 -1 0 1 2 3");
    expect_ticks(0, 1725, false, 6, "0 200 400 600 800 1000 1200 1400 1600");
    expect_ticks(0, 250000, false, 5, "0 50k 100k 150k 200k 250k");
    expect_ticks(0, 3e6, false, 6, "0 0.5M 1.0M 1.5M 2.0M 2.5M 3.0M");
    expect_ticks(1e-4, 1e-1, true, 5, "0.0001 0.001 0.01 0.1");
    expect_ticks(1e-3, 1e-1, true, 5, "0.001 0.002 0.005 0.01 0.02 0.05 0.1");
    rk_scale counted = {.low = 0.9, .high = 4.1, .whole = true, .from = 0, .to = 1};
    rk_ticks ticks;
    rk_scale_ticks(&counted, 6, &ticks);
    assert_true(ticks.n == 4 && strcmp(ticks.texts[0], "1") == 0 && strcmp(ticks.texts[3], "4") == 0);
    expect_ticks(1e-9, 1e9, true, 6, "1e-09 1e-06 0.001 1 1000 1000000 1000000000");
}

/* Whatever the range, there are some ticks, in order, and no two look alike. */
static void test_ticks_of_all_sizes(void **state) {
    (void)state;
    for (int power = -12; power <= 12; power++)
        for (double width = 1; width < 10; width += 0.37)
            for (int offset = -3; offset <= 3; offset++) {
                double unit = pow(10, power);
                rk_scale scale = {.low = offset * unit, .high = (offset + width) * unit, .from = 0, .to = 1};
                rk_ticks ticks;
                rk_scale_ticks(&scale, 5, &ticks);
                assert_in_range(ticks.n, 3, 10);
                for (size_t i = 1; i < ticks.n; i++) {
                    assert_true(ticks.values[i] > ticks.values[i - 1]);
                    assert_string_not_equal(ticks.texts[i], ticks.texts[i - 1]);
                }
            }
}

static void test_scales(void **state) {
    (void)state;
    rk_range range = RK_RANGE_INIT;
    rk_scale empty = rk_scale_fit(range, false, 0.1, 0, 10);
    assert_true(empty.low == 0 && empty.high == 1);
    rk_range_add(&range, NAN, false);
    rk_range_add(&range, INFINITY, false);
    assert_true(range.low > range.high);
    rk_range_add(&range, 5, false);
    rk_scale one = rk_scale_fit(range, false, 0.1, 0, 10);
    assert_true(one.low < 5 && one.high > 5);
    rk_range_add(&range, 15, false);
    rk_scale both = rk_scale_fit(range, false, 0.1, 0, 120);
    assert_float_equal(rk_scale_position(&both, 5), 10, 1e-9);
    assert_float_equal(rk_scale_position(&both, 15), 110, 1e-9);
    rk_range logs = RK_RANGE_INIT;
    rk_range_add(&logs, -1, true);
    rk_range_add(&logs, 0, true);
    assert_true(logs.low > logs.high);
    rk_scale decades = {.low = 1, .high = 100, .log = true, .from = 0, .to = 10};
    assert_float_equal(rk_scale_position(&decades, 10), 5, 1e-9);
}

static void expect_escaped(const char *text, const char *expected) {
    rk_buffer out = {0};
    rk_markup_escape(text, &out);
    assert_int_equal(out.status, RK_OK);
    assert_string_equal(out.data ? out.data : "", expected);
    rk_buffer_release(&out);
}

#define FFFD "\xEF\xBF\xBD"
static void test_escaping(void **state) {
    (void)state;
    expect_escaped("", "");
    expect_escaped("a<b>&\"c'", "a&lt;b&gt;&amp;&quot;c&#39;");
    expect_escaped("</svg><script>", "&lt;/svg&gt;&lt;script&gt;");
    expect_escaped("na\xC3\xAFve \xE2\x82\xAC \xF0\x9F\x98\x80",
                   "na\xC3\xAFve \xE2\x82\xAC \xF0\x9F\x98\x80");
    expect_escaped("a\x01z\x7F", "a" FFFD "z" FFFD);
    expect_escaped("a\nb", "a b");
    expect_escaped("\xC3", FFFD);                   /* cut */
    expect_escaped("\xC0\xAF", FFFD FFFD);          /* overlong */
    expect_escaped("\xED\xA0\x80", FFFD FFFD FFFD); /* a surrogate */
    expect_escaped("\xFFx", FFFD "x");
}

static char *draw(const rk_series *series, size_t n) {
    rk_buffer out = {0};
    rk_chart chart = {.title = "a & b", .width = 300, .height = 200, .series = series, .n_series = n};
    rk_chart_draw(&chart, 0, 0, &out);
    assert_int_equal(out.status, RK_OK);
    return out.data;
}

static size_t count(const char *text, const char *what) {
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)); at++) n++;
    return n;
}

static void test_values_that_are_no_numbers(void **state) {
    (void)state;
    double x[] = {1, 2, 3, 4, 5}, y[] = {1, 2, NAN, 4, INFINITY};
    rk_series series = {.name = "<s>", .n = 5, .x = x, .y = y};
    char *text = draw(&series, 1);
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    assert_int_equal(count(text, "<circle"), 3);
    const char *path = strstr(text, "d=\"M");
    assert_non_null(path);
    assert_non_null(memchr(path + 4, 'M', (size_t)(strchr(path + 4, '"') - path - 4))); /* a gap */
    assert_non_null(strstr(text, "a &amp; b"));
    assert_non_null(strstr(text, "&lt;s&gt;"));
    assert_int_equal(count(text, "<svg"), count(text, "</svg>"));
    rk_free(text);
    double nothing[] = {NAN, NAN, NAN, NAN, NAN};
    series.y = nothing;
    text = draw(&series, 1);
    assert_non_null(strstr(text, "no values"));
    rk_free(text);
    text = draw(NULL, 0);
    assert_non_null(strstr(text, "no values"));
    rk_free(text);
}

static void test_bars(void **state) {
    (void)state;
    const char *rows[] = {"age", "a<b", "none"}, *names[] = {"one"};
    double values[] = {0.25, -0.125, NAN}, low[] = {0.2, -0.2, NAN}, high[] = {0.3, -0.1, NAN};
    rk_bars bars = {.width = 400,
                    .rows = rows,
                    .n_rows = 3,
                    .n_series = 1,
                    .series = names,
                    .values = values,
                    .low = low,
                    .high = high};
    rk_buffer out = {0};
    rk_bars_draw(&bars, 0, 0, &out);
    assert_int_equal(out.status, RK_OK);
    assert_int_equal(count(out.data, "<rect"), 2);
    assert_int_equal(count(out.data, "whisker"), 2);
    assert_non_null(strstr(out.data, "a&lt;b"));
    assert_null(strstr(out.data, "nan"));
    rk_buffer_release(&out);
}

static void test_out_of_memory(void **state) {
    (void)state;
    double x[] = {1, 2}, y[] = {3, 4};
    rk_series series = {.name = "s", .n = 2, .x = x, .y = y};
    rk_chart chart = {.title = "t", .width = 300, .height = 200, .series = &series, .n_series = 1};
    long live = rk_alloc_live();
    for (long n = 1;; n++) {
        rk_buffer out = {0};
        rk_alloc_fail_after(n, false);
        rk_chart_draw(&chart, 0, 0, &out);
        rk_alloc_fail_after(0, false);
        rk_status status = out.status;
        rk_buffer_release(&out);
        assert_int_equal(rk_alloc_live(), live);
        if (status == RK_OK) break;
        assert_int_equal(status, RK_NO_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ticks),
        cmocka_unit_test(test_ticks_of_all_sizes),
        cmocka_unit_test(test_scales),
        cmocka_unit_test(test_escaping),
        cmocka_unit_test(test_values_that_are_no_numbers),
        cmocka_unit_test(test_bars),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
