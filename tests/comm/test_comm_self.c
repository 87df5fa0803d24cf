#include "testing.h"

#include <reckon/comm.h>

#include "base/memory.h"

static int setup(void **state) {
    rk_comm *comm;
    OK(rk_comm_self(&comm));
    *state = comm;
    return 0;
}

static int teardown(void **state) {
    rk_comm_free(*state);
    assert_int_equal(rk_alloc_live(), 0);
    return 0;
}

static void test_alone(void **state) {
    rk_comm *comm = *state;
    assert_int_equal(rk_comm_rank(comm), 0);
    assert_int_equal(rk_comm_size(comm), 1);
    OK(rk_comm_barrier(comm));
    float values[] = {1.5f, -2};
    OK(rk_comm_all_reduce_f32(comm, values, 2));
    OK(rk_comm_all_reduce_f32(comm, NULL, 0));
    assert_true(values[0] == 1.5f && values[1] == -2);
    FAILS(rk_comm_all_reduce_f32(comm, NULL, 2), RK_INVALID_ARGUMENT, "all-reduce: no values");
}

static void test_all_to_all(void **state) {
    rk_comm *comm = *state;
    char text[] = "0123456789";
    size_t bytes = 3, from = 2, to = 5, other = 4;
    char out[10] = "..........";
    OK(rk_comm_all_to_all(comm, text, &bytes, &from, out, &bytes, &to));
    assert_memory_equal(out, ".....234..", 10);
    size_t overlapping = 3;
    OK(rk_comm_all_to_all(comm, text, &bytes, &from, text, &bytes, &overlapping));
    assert_string_equal(text, "0122346789");
    FAILS(rk_comm_all_to_all(comm, text, &bytes, &from, out, &other, &to), RK_INVALID_ARGUMENT, "all-to-all: rank 0 sends itself 3 bytes and receives 4");
    FAILS(rk_comm_all_to_all(comm, NULL, &bytes, &from, out, &bytes, &to), RK_INVALID_ARGUMENT, "all-to-all: a buffer is missing");
    FAILS(rk_comm_all_to_all(comm, text, NULL, &from, out, &bytes, &to), RK_INVALID_ARGUMENT, "all-to-all: an array of sizes or offsets is missing");
    size_t none = 0;
    OK(rk_comm_all_to_all(comm, NULL, &none, &none, NULL, &none, &none));
    assert_memory_equal(out, ".....234..", 10);
}

static void keep(void *user, rk_log_level level, const char *message) {
    snprintf(user, 100, "%d %s", level, message);
}

static void test_abort_says_who(void **state) {
    char heard[100] = "";
    rk_log_set(keep, heard, RK_LOG_ERROR);
    rk_comm_abort(*state, "the disk is full");
    rk_log_set(NULL, NULL, RK_LOG_ERROR);
    assert_string_equal(heard, "3 rank 0: the disk is full");
}

static void test_no_memory(void **state) {
    (void)state;
    rk_comm *comm = (rk_comm *)state;
    rk_alloc_fail_after(1, false);
    assert_int_equal(rk_comm_self(&comm), RK_NO_MEMORY);
    assert_ptr_equal(comm, state);
    rk_comm_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_to_all, setup, teardown),
        cmocka_unit_test_setup_teardown(test_abort_says_who, setup, teardown),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
