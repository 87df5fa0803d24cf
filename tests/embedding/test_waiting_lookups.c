/* Lookups of a collection's dynamic table that wait for their backward, or never have one; and rows that go
 * by the time of the batches. */
#include "testing.h"

#include <math.h>

#include "small_dynamic_table.h"

/* Two lookups that wait, and a backward that waits for its step: rows stay until all is done, as in a table
 * that has room for all. */
static void test_lookups_that_wait(void **state) {
    (void)state;
    rk_embeddings *small = make_small(4, 0), *roomy = make_small(100, 0);
    rk_embeddings *both[] = {small, roomy};
    rk_table_state *states[2];
    for (int i = 0; i < 2; i++) {
        rk_embeddings *e = both[i];
        rk_lookup *one, *other;
        OK(rk_lookup_create(e, &one));
        OK(rk_lookup_create(e, &other));
        OK(look_up_keys(e, one, 0));
        OK(look_up_keys(e, other, 10));
        OK(backward_of(one, 0.5f));
        OK(look_up_keys(e, one, 20));
        assert_int_equal(n_rows_of(e), 12);
        OK(backward_of(other, -0.25f));
        OK(backward_of(one, 1));
        OK(rk_embeddings_step(e));
        OK(rk_embeddings_read_state(e, "t", &states[i]));
        OK(look_up_keys(e, one, 30)); /* which nothing waits for: the others go, where there is no room */
        assert_int_equal(n_rows_of(e), i ? 16 : 4);
        FAILS(write_state(e, "t", states[i]), RK_INVALID_ARGUMENT,
              "table 't': lookups wait for a backward, or backwards for a step\n"
              "hint: finish or free them before a state is written");
        rk_lookup_free(one);
        OK(write_state(e, "t", states[i]));
        assert_int_equal(n_rows_of(e), 12);
        rk_lookup_free(other);
    }
    OK(same_states(states[0], states[1]));
    for (int i = 0; i < 2; i++) rk_table_state_free(states[i]);
    rk_embeddings_free(small);
    rk_embeddings_free(roomy);
}

/* A lookup that is refused while another one waits is no batch: rows that are done with go. */
static void test_a_lookup_that_is_refused(void **state) {
    (void)state;
    rk_embeddings *e = make_small(8, 0);
    rk_lookup *one, *other;
    OK(rk_lookup_create(e, &one));
    OK(rk_lookup_create(e, &other));
    OK(look_up_keys(e, one, 0));
    OK(backward_of(one, 1));
    OK(rk_embeddings_step(e));
    OK(look_up_keys(e, other, 10));
    assert_int_equal(rk_embeddings_lookup(e, 4, NULL, one, NULL), RK_INVALID_ARGUMENT);
    OK(look_up_keys(e, one, 20));
    assert_int_equal(n_rows_of(e), 8);
    rk_lookup_free(one);
    rk_lookup_free(other);
    rk_embeddings_free(e);
}

/* One lookup always waits: rows of those before it go. */
static void test_lookups_one_ahead(void **state) {
    (void)state;
    rk_embeddings *e = make_small(8, 0);
    rk_lookup *both[2];
    for (int i = 0; i < 2; i++) OK(rk_lookup_create(e, &both[i]));
    OK(look_up_keys(e, both[0], 0));
    for (int step = 1; step < 20; step++) {
        OK(look_up_keys(e, both[step % 2], 10 * step));
        OK(backward_of(both[(step + 1) % 2], 1));
        OK(rk_embeddings_step(e));
        assert_true(n_rows_of(e) <= 8);
    }
    for (int i = 0; i < 2; i++) rk_lookup_free(both[i]);
    rk_embeddings_free(e);
}

enum { TIMES = 6 };

/* Steps begin .. end-1, each with keys of its own, at these times: the rows that there are then. */
static void train_at(rk_embeddings *e, const double times[TIMES], const int64_t n_rows[TIMES], int begin,
                     int end) {
    rk_lookup *lookup;
    OK(rk_lookup_create(e, &lookup));
    for (int step = begin; step < end; step++) {
        OK(rk_embeddings_set_timestamp(e, times[step]));
        FAILS(rk_embeddings_set_timestamp(e, 1.7e12), RK_INVALID_ARGUMENT,
              "1.7e+12 is no time in seconds since the epoch\nhint: give seconds, not milliseconds");
        OK(look_up_keys(e, lookup, 10 * step));
        OK(backward_of(lookup, 1));
        OK(rk_embeddings_step(e));
        assert_int_equal(n_rows_of(e), n_rows[step]);
    }
    rk_lookup_free(lookup);
}

/* Rows go when they were unused for 8 seconds, by the latest time so far; without times none does. A copy of
 * the state has the clock. */
static void test_time_to_live(void **state) {
    (void)state;
    static const double times[TIMES] = {1e9, 1e9 + 6, NAN, 1e9 + 2, 1e9 + 9.5, 1e9 + 15.5},
                        none[TIMES] = {NAN, NAN, NAN, NAN, NAN, NAN};
    static const int64_t n_rows[TIMES] = {4, 8, 12, 16, 16, 8}, n_all[TIMES] = {4, 8, 12, 16, 20, 24};
    rk_embeddings *e = make_small(100, 8), *copy = make_small(100, 8), *timeless = make_small(100, 8);
    rk_table_state *half, *whole, *other;
    train_at(e, times, n_rows, 0, TIMES / 2);
    OK(rk_embeddings_read_state(e, "t", &half));
    train_at(e, times, n_rows, TIMES / 2, TIMES);
    OK(rk_embeddings_read_state(e, "t", &whole));
    OK(write_state(copy, "t", half));
    train_at(copy, times, n_rows, TIMES / 2, TIMES);
    OK(rk_embeddings_read_state(copy, "t", &other));
    OK(same_states(other, whole));
    train_at(timeless, none, n_all, 0, TIMES);
    rk_table_state *states[] = {half, whole, other};
    rk_embeddings *collections[] = {e, copy, timeless};
    for (int i = 0; i < 3; i++) {
        rk_table_state_free(states[i]);
        rk_embeddings_free(collections[i]);
    }
}

/* A table takes a state without a clock: its rows are as old as the first timestamp. One without a `ttl`
 * takes a state with a clock. */
static void test_time_to_live_of_a_state(void **state) {
    (void)state;
    static const double times[TIMES] = {1e9, 1e9 + 6, 1e9 + 7, 2e9, 2e9 + 7, 2e9 + 9};
    static const int64_t n_all[TIMES] = {4, 8, 12, 16, 20, 24}, n_rows[TIMES] = {0, 0, 0, 16, 20, 8};
    rk_embeddings *with = make_small(100, 8), *without = make_small(100, 0);
    rk_table_state *clockless, *clocked;
    train_at(without, times, n_all, 0, TIMES / 2);
    OK(rk_embeddings_read_state(without, "t", &clockless));
    train_at(with, times, n_all, 0, TIMES / 2); /* of which none would be left in the next step */
    OK(write_state(with, "t", clockless));
    train_at(with, times, n_rows, TIMES / 2, TIMES);
    OK(rk_embeddings_read_state(with, "t", &clocked));
    OK(write_state(without, "t", clocked));
    assert_int_equal(n_rows_of(without), n_rows[TIMES - 1]);
    rk_table_state_free(clockless);
    rk_table_state_free(clocked);
    rk_embeddings_free(with);
    rk_embeddings_free(without);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lookups_that_wait),       cmocka_unit_test(test_a_lookup_that_is_refused),
        cmocka_unit_test(test_lookups_one_ahead),       cmocka_unit_test(test_time_to_live),
        cmocka_unit_test(test_time_to_live_of_a_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
