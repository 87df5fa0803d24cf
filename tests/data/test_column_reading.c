/* Which columns may come as numbers, by what reads them. */
#include "testing.h"

#include <reckon/experimental/column_reading.h>
#include <stdio.h>

#include "base/memory.h"
#include "data/section.h"

static void check_reading(const char *section, const char *features, rk_column_reading expected) {
    char text[500];
    opened o;
    snprintf(text, sizeof text, "train: t.csv\nlabels: [{name: y}]\n%sfeatures:\n%s", section, features);
    OK(open_section(&o, "", text));
    assert_int_equal(rk_transforms_column_reading(o.transforms, "a"), expected);
    close_section(&o);
}

static void test_readings(void **state) {
    (void)state;
    static const char dense[] = "  - {name: a, dense: true}\n", hash[] = "  - {name: a, hash: 9}\n";
    check_reading("", dense, RK_READS_F32);
    check_reading("", "  - {name: x, column: a, dense: true, width: 3}\n", RK_READS_F32);
    check_reading("", "  - {name: a, dense: true, log1p: true}\n", RK_READS_NUMBERS);
    check_reading("", "  - {name: a, bucketize: [1, 2]}\n", RK_READS_NUMBERS);
    check_reading("", "  - {name: x, hash: 9, weights: a}\n", RK_READS_F32);
    check_reading("", "  - {name: a, bucketize: [1]}\n  - {name: x, hash: 9, weights: a}\n",
                  RK_READS_NUMBERS);
    check_reading("", hash, RK_READS_INTEGERS);
    check_reading("", "  - {name: a, identity: 9}\n", RK_READS_INTEGERS);
    check_reading("", "  - {name: x, column: a, key: true}\n", RK_READS_INTEGERS);
    check_reading("", "  - {name: x, column: a, dense: true}\n  - {name: a, hash: 9}\n", RK_READS_INTEGERS);
    /* the section says something of texts that numbers may have */
    check_reading("missing: [NA, \"-\"]\n", dense, RK_READS_F32);
    check_reading("missing: [NA, \"-1\"]\n", dense, RK_READS_TEXTS);
    check_reading("missing: [nan]\n", dense, RK_READS_TEXTS);
    check_reading("", "  - {name: a, hash: 9, separator: \"|\"}\n", RK_READS_INTEGERS);
    check_reading("", "  - {name: a, hash: 9, separator: \"-\"}\n", RK_READS_TEXTS);
    check_reading("", "  - {name: x, hash: 9, separator: \".\", weights: a}\n", RK_READS_TEXTS);
    check_reading("", "  - {name: a, hash: 9, weights: a}\n", RK_READS_TEXTS);
    /* others read it, or nothing */
    check_reading("sample_weight: a\n", dense, RK_READS_TEXTS);
    check_reading("group: a\n", hash, RK_READS_TEXTS);
    check_reading("", "  - {name: b, hash: 9}\n", RK_READS_TEXTS);
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_missing_texts(void **state) {
    (void)state;
    opened o;
    OK(open_section(
        &o, "", "train: t.csv\nlabels: [{name: y}]\nmissing: [NA, \"-\"]\nfeatures: [{name: a, hash: 9}]"));
    assert_true(rk_transforms_is_missing(o.transforms, "NA of which two bytes are looked at", 2));
    assert_true(rk_transforms_is_missing(o.transforms, "-", 1));
    assert_false(rk_transforms_is_missing(o.transforms, "N", 1));
    close_section(&o);
    assert_int_equal(rk_alloc_live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_readings), cmocka_unit_test(test_missing_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
