/* Rows as columns: adding, dropping, clearing, running out of memory. */
#include "fixture.h"

static const char *const names[] = {"text", "number", "real"};
static const rk_column_type types[] = {RK_COLUMN_TEXT, RK_COLUMN_I64, RK_COLUMN_F32};

static void test_rows(void **state) {
    (void)state;
    rk_columns c;
    OK(rk_columns_init(&c, 3, names, types));
    assert_int_equal(rk_columns_find(&c, "real"), 2);
    assert_int_equal(rk_columns_find(&c, "rea"), -1);
    assert_string_equal(rk_column_type_name(RK_COLUMN_F32), "f32");
    OK(rk_column_add_text(&c.columns[0], text_span("one")));
    OK(rk_column_add_text(&c.columns[0], text_span("")));
    OK(rk_column_add_i64(&c.columns[1], INT64_MIN));
    OK(rk_columns_end_row(&c));
    OK(rk_columns_end_row(&c)); /* all missing */
    OK(rk_column_add_i64(&c.columns[1], 7));
    OK(rk_column_add_i64(&c.columns[1], 8));
    OK(rk_column_add_weight(&c.columns[1], 0.5f)); /* the earlier ones get 1 */
    OK(rk_column_add_i64(&c.columns[1], 9));       /* and so do later ones */
    OK(rk_column_add_f32(&c.columns[2], 2.5f));
    OK(rk_columns_end_row(&c));
    assert_int_equal(c.n_rows, 3);
    const int64_t offsets[3][4] = {{0, 2, 2, 2}, {0, 1, 1, 4}, {0, 0, 0, 1}};
    for (int i = 0; i < 3; i++) assert_memory_equal(c.columns[i].offsets, offsets[i], sizeof offsets[i]);
    const float weights[] = {1, 1, 0.5f, 1};
    assert_memory_equal(c.columns[1].weights, weights, sizeof weights);
    assert_null(c.columns[0].weights);
    assert_int_equal(rk_column_text(&c.columns[0], 0).n_bytes, 3);
    assert_int_equal(rk_column_text(&c.columns[0], 1).n_bytes, 0);
    assert_int_equal(c.columns[1].i64[0] == INT64_MIN, 1);
    rk_columns_clear(&c);
    assert_int_equal(c.n_rows, 0);
    assert_null(c.columns[1].weights);
    rk_columns_release(&c);
    rk_columns_release(&c); /* a released value is empty */
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_drop_row(void **state) {
    (void)state;
    rk_columns c;
    OK(rk_columns_init(&c, 3, names, types));
    for (int row = 0; row < 1000; row++) {
        char text[16];
        snprintf(text, sizeof text, "%d", row);
        OK(rk_column_add_text(&c.columns[0], text_span(text)));
        OK(rk_column_add_i64(&c.columns[1], row));
        if (row % 5 == 0) OK(rk_column_add_weight(&c.columns[1], (float)row));
        if (row % 3 == 1)
            rk_columns_drop_unended_row(&c);
        else
            OK(rk_columns_end_row(&c));
    }
    int64_t kept = 0;
    for (int row = 0; row < 1000; row++) {
        if (row % 3 == 1) continue;
        char text[16];
        snprintf(text, sizeof text, "%d", row);
        rk_span span = rk_column_text(&c.columns[0], kept);
        assert_true(rk_span_equal(span, text));
        assert_int_equal(c.columns[1].i64[kept], row);
        assert_true(c.columns[1].weights[kept] == (row % 5 == 0 ? (float)row : 1.0f));
        kept++;
    }
    assert_int_equal(c.n_rows, kept);
    rk_columns_release(&c);
}

/* Whichever allocation fails, nothing leaks, and what was there stays. */
static void test_out_of_memory(void **state) {
    (void)state;
    long live = rk_alloc_live();
    int done = 0;
    for (long n = 1; !done; n++) {
        rk_columns c = {0};
        rk_rng rng = {1, 2, 0};
        rk_alloc_fail_after(n, false);
        rk_status status = rk_columns_init(&c, 3, names, types);
        if (status == RK_OK) status = fill_random(&rng, 300, &c);
        rk_alloc_fail_after(0, false);
        done = status == RK_OK;
        assert_true(done || status == RK_NO_MEMORY);
        for (int32_t i = 0; i < c.n_columns; i++)
            for (int64_t row = 0; row < c.n_rows; row++)
                assert_true(c.columns[i].offsets[row + 1] >= c.columns[i].offsets[row]);
        rk_columns_release(&c);
        assert_int_equal(rk_alloc_live(), live);
        assert_true(n < 1000);
    }
}

static void test_alike(void **state) {
    (void)state;
    rk_columns a, b;
    OK(rk_columns_init(&a, 3, names, types));
    OK(rk_columns_init(&b, 2, names, types));
    assert_true(rk_columns_have_same_types(&a, &a));
    assert_false(rk_columns_have_same_types(&a, &b));
    b.n_columns = a.n_columns = 2;
    assert_true(rk_columns_have_same_types(&a, &b));
    b.columns[1].type = RK_COLUMN_F32;
    assert_false(rk_columns_have_same_types(&a, &b));
    b.columns[1].type = RK_COLUMN_I64;
    b.columns[1].name[0] = 'm';
    assert_false(rk_columns_have_same_types(&a, &b));
    a.n_columns = 3;
    rk_columns_release(&a);
    rk_columns_release(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_drop_row),
                                       cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_alike)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
