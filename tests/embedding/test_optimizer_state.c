/* Rows, slots and steps written into another collection: it goes on to the same bits. */
#include "embedding_fixture.h"

enum { STEPS = 4, N = 120, MOST_VALUES = MAX_ROWS * MAX_TABLE_DIM };

static void copy_table(const rk_embeddings *from, rk_embeddings *to, int t) {
    static float values[MOST_VALUES];
    int64_t n = table_rows[t], half = n / 2, step;
    const char *name = table_names[t];
    int32_t width;
    OK(rk_embeddings_read_rows(from, name, 0, n, values));
    OK(rk_embeddings_write_rows(to, name, 0, n, values));
    for (int32_t s = 0; rk_embeddings_slot_name(from, name, s, &width); s++) {
        assert_true(width == 1 || width == table_dims[t]);
        OK(rk_embeddings_read_slot(from, name, s, 0, n, values));
        OK(rk_embeddings_write_slot(to, name, s, 0, half, values)); /* in two pieces */
        OK(rk_embeddings_write_slot(to, name, s, half, n - half, values + half * width));
    }
    OK(rk_embeddings_read_step(from, name, &step));
    assert_int_equal(step, t == N_TABLES - 1 ? 0 : STEPS);
    OK(rk_embeddings_write_step(to, name, step));
}

static void test_goes_on_to_the_same_bits(void **state) {
    (void)state;
    static drawn b;
    static const rk_dtype dtypes[] = {RK_F32, RK_BF16, RK_F16};
    for (int kind = 0; kind < RK_OPTIMIZER_COUNT; kind++)
        for (int d = 0; d < 3; d++) {
            rk_optimizer optimizer;
            OK(rk_optimizer_init(&optimizer, (rk_optimizer_kind)kind));
            optimizer.schedule.kind = RK_SCHEDULE_COSINE;
            optimizer.schedule.decay_steps = 3 * STEPS;
            rk_embeddings *one = make_usual(&optimizer, dtypes[d]), *two = make_usual(&optimizer, dtypes[d]);
            train_steps(one, &b, 0, STEPS, N);
            for (int t = 0; t < N_TABLES; t++) copy_table(one, two, t);
            assert_same_state(one, two, true);
            train_steps(one, &b, STEPS, STEPS, N);
            train_steps(two, &b, STEPS, STEPS, N);
            assert_same_state(one, two, true);
            rk_embeddings_free(one);
            rk_embeddings_free(two);
        }
}

static void test_names_and_mistakes(void **state) {
    (void)state;
    rk_optimizer adam;
    float value[MAX_TABLE_DIM];
    int32_t width = 0;
    int64_t step;
    OK(rk_optimizer_init(&adam, RK_OPTIMIZER_ROWWISE_ADAM));
    rk_embeddings *e = make_usual(&adam, RK_F32);
    assert_string_equal(rk_embeddings_slot_name(e, "item", 0, &width), "m");
    assert_int_equal(width, 5);
    assert_string_equal(rk_embeddings_slot_name(e, "item", 1, &width), "v");
    assert_int_equal(width, 1);
    assert_string_equal(rk_embeddings_slot_name(e, "item", 1, NULL), "v");
    assert_null(rk_embeddings_slot_name(e, "item", 2, &width));
    assert_null(rk_embeddings_slot_name(e, "item", -1, &width));
    assert_null(rk_embeddings_slot_name(e, "none", 0, &width));
    assert_null(rk_embeddings_slot_name(e, "still", 0, &width)); /* frozen */
    assert_int_equal(rk_embeddings_read_slot(e, "item", 2, 0, 1, value), RK_INVALID_ARGUMENT);
    assert_string_equal(rk_last_error(), "the optimizer of table 'item' has no slot 2");
    assert_int_equal(rk_embeddings_write_slot(e, "still", 0, 0, 1, value), RK_INVALID_ARGUMENT);
    assert_int_equal(rk_embeddings_read_slot(e, "item", 1, 50, 1, value), RK_INVALID_ARGUMENT);
    OK(rk_embeddings_read_slot(e, "item", 1, 50, 0, value));
    assert_int_equal(rk_embeddings_read_slot(e, "none", 0, 0, 1, value), RK_NOT_FOUND);
    assert_int_equal(rk_embeddings_read_step(e, "none", &step), RK_NOT_FOUND);
    assert_int_equal(rk_embeddings_write_step(e, "item", -1), RK_INVALID_ARGUMENT);
    rk_embeddings_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goes_on_to_the_same_bits),
        cmocka_unit_test(test_names_and_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
