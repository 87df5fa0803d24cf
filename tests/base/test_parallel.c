#include "testing.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread/parallel.h"

enum { N = 1000 };
static atomic_int times_run[N];
static int bad_thread;

static void count(void *context, size_t task, int thread) {
    (void)context;
    if (thread < 0 || thread >= rk_parallel_threads()) bad_thread = 1;
    atomic_fetch_add(&times_run[task], 1);
}

static void test_each_task_once(void **state) {
    (void)state;
    for (int threads = 1; threads <= 8; threads++) {
        OK(rk_parallel_set_threads(threads));
        assert_int_equal(rk_parallel_threads(), threads);
        for (int round = 0; round < 50; round++) rk_parallel_for(N, count, NULL);
        for (int i = 0; i < N; i++) assert_int_equal(atomic_exchange(&times_run[i], 0), 50);
    }
    assert_false(bad_thread);
}

static void nested(void *context, size_t task, int thread) {
    (void)thread;
    (void)task;
    rk_parallel_for(10, count, context);
}

static void test_nested(void **state) {
    (void)state;
    OK(rk_parallel_set_threads(3));
    rk_parallel_for(20, nested, NULL);
    for (int i = 0; i < 10; i++) assert_int_equal(atomic_exchange(&times_run[i], 0), 20);
}

static void *loops(void *argument) {
    for (int i = 0; i < 200; i++) rk_parallel_for(N, count, argument);
    return NULL;
}

static void test_from_several_threads(void **state) {
    (void)state;
    OK(rk_parallel_set_threads(2));
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, loops, NULL);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < N; i++) assert_int_equal(atomic_exchange(&times_run[i], 0), 600);
}

static void test_after_fork(void **state) {
    (void)state;
    OK(rk_parallel_set_threads(2));
    rk_parallel_for(N, count, NULL);
    for (int i = 0; i < N; i++) atomic_store(&times_run[i], 0);
    pid_t child = fork();
    if (child == 0) {
        rk_parallel_for(N, count, NULL);
        int wrong = 0;
        for (int i = 0; i < N; i++) wrong |= atomic_load(&times_run[i]) != 1;
        _exit(wrong);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_limits(void **state) {
    (void)state;
    FAILS(rk_parallel_set_threads(-1), RK_INVALID_ARGUMENT, "-1 threads: must be 0 to 1024");
    OK(rk_parallel_set_threads(0));
    assert_true(rk_parallel_threads() >= 1);
    rk_parallel_for(0, count, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_task_once),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_from_several_threads),
        cmocka_unit_test(test_after_fork),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
