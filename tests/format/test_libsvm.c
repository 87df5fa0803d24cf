/* libsvm lines: labels, groups, pairs, comments, damage. */
#include "fixture.h"

#include "format/text/libsvm.h"

static rk_status parse(const char *line, rk_libsvm_row *row) {
    char *exact = malloc(strlen(line) + 1);
    memcpy(exact, line, strlen(line));
    rk_status status = rk_libsvm_parse(exact, strlen(line), row);
    free(exact);
    return status;
}

static void test_lines(void **state) {
    (void)state;
    rk_libsvm_row row = {0};
    OK(parse("1 3:0.5 7:1 9", &row));
    assert_true(row.n_labels == 1 && row.labels[0] == 1 && row.n_ids == 3 && !row.has_group);
    assert_true(row.ids[0] == 3 && row.values[0] == 0.5f && row.ids[2] == 9 && row.values[2] == 1);
    OK(parse("-1.5e0\t qid:12 \t4:-2 \r", &row));
    assert_true(row.labels[0] == -1.5f && row.has_group && row.group == 12 && row.n_ids == 1 &&
                row.values[0] == -2);
    OK(parse("1,0,1 0:1 # a comment: 5:5", &row));
    assert_true(row.n_labels == 3 && row.labels[1] == 0 && row.n_ids == 1 && !row.has_group);
    OK(parse("+1", &row));
    assert_true(row.n_labels == 1 && row.n_ids == 0);
    OK(parse("0 9223372036854775807:1", &row));
    assert_true(row.ids[0] == INT64_MAX);
    static const char *const blank[] = {"", " \t\r", "# only a comment", "  #x"};
    for (int i = 0; i < 4; i++) {
        OK(parse(blank[i], &row));
        assert_int_equal(row.n_labels, 0);
    }
    rk_libsvm_row_release(&row);
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_errors(void **state) {
    (void)state;
    rk_libsvm_row row = {0};
    FAILS(parse("x 1:1", &row), RK_BAD_DATA, "the label 'x' is not a number");
    FAILS(parse("1,,0 1:1", &row), RK_BAD_DATA, "the label '' is not a number");
    FAILS(parse("1 a:1", &row), RK_BAD_DATA, "'a:1' is not index:value");
    FAILS(parse("1 1:", &row), RK_BAD_DATA, "'1:' is not index:value");
    FAILS(parse("1 1:2:3", &row), RK_BAD_DATA, "'1:2:3' is not index:value");
    FAILS(parse("1 1:1e99", &row), RK_BAD_DATA, "'1:1e99' is not index:value");
    FAILS(parse("1 9223372036854775808:1", &row), RK_BAD_DATA, "'9223372036854775808:1' is not index:value");
    FAILS(parse("1 qid:x", &row), RK_BAD_DATA, "'qid:x' is not qid:NUMBER");
    assert_int_equal(rk_libsvm_parse("1 1:\0", 5, &row), RK_BAD_DATA);
    rk_libsvm_row_release(&row);
}

static void test_many_pairs_and_no_memory(void **state) {
    (void)state;
    enum { N = 5000 };
    char *line = malloc(N * 20), *at = line + sprintf(line, "1");
    for (int i = 0; i < N; i++) at += sprintf(at, " %d:%d", i * 7, i % 10);
    for (long n = 1;; n++) {
        rk_libsvm_row row = {0};
        rk_alloc_fail_after(n, false);
        rk_status status = rk_libsvm_parse(line, (size_t)(at - line), &row);
        rk_alloc_fail_after(0, false);
        if (status == RK_OK)
            for (int i = 0; i < N; i++) assert_true(row.ids[i] == i * 7 && row.values[i] == (float)(i % 10));
        rk_libsvm_row_release(&row);
        assert_int_equal(rk_alloc_live(), 0);
        if (status == RK_OK) break;
        assert_int_equal(status, RK_NO_MEMORY);
    }
    free(line);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_errors),
                                       cmocka_unit_test(test_many_pairs_and_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
