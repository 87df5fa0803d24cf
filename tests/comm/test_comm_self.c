#include "testing.h"

#include <reckon/comm.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/comm.h"

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
    FAILS(rk_comm_all_reduce_f32(comm, NULL, 2), RK_INVALID_ARGUMENT, "all_reduce: no values");
}

static void test_exchange(void **state) {
    rk_comm *comm = *state;
    char text[] = "0123456789";
    rk_message send = {text + 2, 3};
    rk_all_to_all *one, *other;
    OK(rk_all_to_all_begin(comm, RK_CHANNEL_IDS, &send, NULL, NULL, &one));
    send = (rk_message){NULL, 0};
    OK(rk_all_to_all_begin(comm, RK_CHANNEL_IDS, &send, NULL, NULL, &other));
    bool done = false;
    OK(rk_all_to_all_test(other, &done));
    assert_true(done);
    assert_int_equal(rk_all_to_all_received_messages(other)->n_bytes, 0);
    OK(rk_all_to_all_wait(one));
    text[2] = 'x';
    assert_int_equal(rk_all_to_all_received_messages(one)->n_bytes, 3);
    assert_memory_equal(rk_all_to_all_received_messages(one)->data, "234", 3);
    assert_int_equal((uintptr_t)rk_all_to_all_received_messages(one)->data % 64, 0);
    rk_all_to_all_free(one);
    rk_all_to_all_free(other);
    send.n_bytes = 1;
    FAILS(rk_all_to_all_begin(comm, RK_CHANNEL_IDS, &send, NULL, NULL, &one), RK_INVALID_ARGUMENT,
          "all_to_all 'ids': no data for rank 0");
}

static void test_nobody(void **state) {
    bool none = false;
    rk_message send = {NULL, 1};
    rk_all_to_all *all_to_all;
    OK(rk_all_to_all_begin(*state, RK_CHANNEL_ROWS, &send, &none, &none, &all_to_all));
    OK(rk_all_to_all_wait(all_to_all));
    assert_int_equal(rk_all_to_all_received_messages(all_to_all)->n_bytes, 0);
    rk_all_to_all_free(all_to_all);
}

/* What cannot be makes the communicator useless, with the same words each time. */
static void test_failure_stays(void **state) {
    static const char reason[] =
        "all_to_all: rank 0 must both send to and receive from itself, not only send to itself";
    bool none = false;
    rk_message send = {NULL, 0};
    rk_all_to_all *all_to_all;
    FAILS(rk_all_to_all_begin(*state, RK_CHANNEL_ROWS, &send, NULL, &none, &all_to_all), RK_INVALID_ARGUMENT,
          reason);
    FAILS(rk_comm_barrier(*state), RK_INVALID_ARGUMENT, reason);
}

/* But memory that ran out may be there again. */
static void test_no_memory_passes(void **state) {
    for (int n = 1;; n++) {
        rk_alloc_fail_after(n, false);
        rk_status status = rk_comm_barrier(*state);
        rk_alloc_fail_after(0, false);
        OK(rk_comm_barrier(*state));
        if (status == RK_OK) break;
        assert_int_equal(status, RK_NO_MEMORY);
        assert_in_range(n, 1, 100);
    }
}

static void test_buffers_are_used_again(void **state) {
    long live = 0;
    for (int i = 0; i < 20; i++) {
        char data[100] = {0};
        rk_all_to_all *all_to_all;
        OK(rk_all_to_all_begin(*state, RK_CHANNEL_ROWS, &(rk_message){data, 60 + (size_t)i}, NULL, NULL,
                               &all_to_all));
        rk_all_to_all_free(all_to_all);
        if (i == 10) live = rk_alloc_live();
    }
    assert_int_equal(rk_alloc_live(), live);
}

static void test_agree_and_members(void **state) {
    OK(rk_comm_agree_on_status(*state, RK_OK));
    FAILS(rk_comm_agree_on_status(*state, rk_error(RK_BAD_DATA, "'x' is no number")), RK_BAD_DATA,
          "'x' is no number");
    rk_comm *members;
    OK(rk_comm_create_group(*state, &(int32_t){0}, 1, &members));
    OK(rk_comm_barrier(members));
    rk_comm_free(members);
    FAILS(rk_comm_create_group(*state, &(int32_t){1}, 1, &members), RK_INVALID_ARGUMENT,
          "members: there is no rank 1 of 1");
    FAILS(rk_comm_create_group(*state, NULL, 0, &members), RK_INVALID_ARGUMENT,
          "members: this rank, 0, is not one of them");
}

static void test_world_without_a_launcher(void **state) {
    (void)state;
    static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK",
                                            "SLURM_STEP_NUM_TASKS"};
    for (int i = 0; i < 5; i++) unsetenv(variables[i]);
    rk_comm *comm;
    OK(rk_comm_world(NULL, &comm));
    assert_int_equal(rk_comm_size(comm), 1);
    assert_string_equal(rk_comm_describe(comm), "one process");
    rk_comm_free(comm);
    rk_comm_options options = RK_COMM_OPTIONS_INIT;
    options.timeout_s = -1;
    FAILS(rk_comm_world(&options, &comm), RK_INVALID_ARGUMENT, "'timeout_s' must be positive, not -1");
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    FAILS(rk_comm_world(NULL, &comm), RK_UNSUPPORTED,
          "srun started 4 tasks that are not connected by MPI\nhint: start them with srun --mpi=pmix or "
          "srun --mpi=pmi2");
    unsetenv("SLURM_STEP_NUM_TASKS");
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
    for (int n = 1; n <= 3; n++) {
        rk_alloc_fail_after(n, false);
        assert_int_equal(rk_comm_self(&comm), RK_NO_MEMORY);
        assert_ptr_equal(comm, state);
        assert_int_equal(rk_alloc_live(), 0);
    }
    rk_comm_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exchange, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failure_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_memory_passes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_buffers_are_used_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_agree_and_members, setup, teardown),
        cmocka_unit_test(test_world_without_a_launcher),
        cmocka_unit_test_setup_teardown(test_abort_says_who, setup, teardown),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
