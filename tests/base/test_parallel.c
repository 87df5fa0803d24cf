#include "testing.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/thread/instruction_set.h"
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

static void is_self(void *context, size_t task, int thread) {
    (void)task;
    if (thread != 0 || !pthread_equal(*(pthread_t *)context, pthread_self())) bad_thread = 1;
}

/* A task that ends once as many tasks have begun as there are threads: each has a thread of its own. */
typedef struct meeting {
    atomic_int n_here;
    int n_wanted;
} meeting;

static void meet(void *context, size_t task, int thread) {
    meeting *m = context;
    (void)task;
    if (thread < 0 || thread >= rk_parallel_threads()) bad_thread = 1;
    atomic_fetch_add(&m->n_here, 1);
    while (atomic_load(&m->n_here) < m->n_wanted) sched_yield();
}

static void *meet_in_pool(void *context) {
    rk_pool *pool;
    OK(rk_pool_create(2, &pool));
    assert_int_equal(rk_pool_threads(pool), 2);
    rk_pool *before = rk_parallel_use_pool(pool);
    assert_null(before);
    assert_int_equal(rk_parallel_threads(), 2);
    rk_parallel_for(2, meet, context);
    assert_ptr_equal(rk_parallel_use_pool(NULL), pool);
    rk_pool_free(pool);
    return NULL;
}

/* Three callers at once, two of them with pools of their own, all get their threads. */
static void test_pools(void **state) {
    (void)state;
    long live = rk_alloc_live();
    OK(rk_parallel_set_threads(2));
    for (int round = 0; round < 20; round++) {
        pthread_t threads[2];
        meeting m = {0, 6};
        for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, meet_in_pool, &m);
        rk_parallel_for(2, meet, &m);
        for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    }
    assert_false(bad_thread);
    assert_int_equal(rk_alloc_live(), live);
}

static pthread_t worker_thread;
static atomic_bool is_held, may_go;

static void meet_and_note_worker(void *context, size_t task, int thread) {
    if (thread == 1) worker_thread = pthread_self();
    meet(context, task, thread);
}

static void hold_thread(int signal) {
    (void)signal;
    atomic_store(&is_held, true);
    while (!atomic_load(&may_go)) sched_yield();
}

/* A loop does not wait for a worker that the system does not run: here one that a signal holds up. */
static void test_worker_that_does_not_come(void **state) {
    (void)state;
    meeting m = {0, 2};
    struct sigaction before, action = {.sa_handler = hold_thread};
    OK(rk_parallel_set_threads(2));
    rk_parallel_for(2, meet_and_note_worker, &m);
    usleep(100000); /* it sleeps now */
    sigaction(SIGUSR1, &action, &before);
    pthread_kill(worker_thread, SIGUSR1);
    while (!atomic_load(&is_held)) sched_yield();
    alarm(60); /* ends a loop that would wait for ever */
    for (int round = 0; round < 50; round++) rk_parallel_for(N, count, NULL);
    alarm(0);
    for (int i = 0; i < N; i++) assert_int_equal(atomic_exchange(&times_run[i], 0), 50);
    atomic_store(&may_go, true);
    atomic_store(&m.n_here, 0);
    rk_parallel_for(2, meet, &m); /* it comes again */
    sigaction(SIGUSR1, &before, NULL);
}

/* Two callers share a pool: one has its threads, the other goes on alone. */
static void *loops_in_pool(void *pool) {
    rk_parallel_use_pool(pool);
    return loops(NULL);
}

static void test_shared_pool(void **state) {
    (void)state;
    rk_pool *pool;
    pthread_t thread;
    OK(rk_pool_create(3, &pool));
    rk_pool *before = rk_parallel_use_pool(pool);
    pthread_create(&thread, NULL, loops_in_pool, pool);
    loops(NULL);
    pthread_join(thread, NULL);
    for (int i = 0; i < N; i++) assert_int_equal(atomic_exchange(&times_run[i], 0), 400);
    rk_parallel_use_pool(before);
    rk_pool_free(pool);
    rk_pool_free(NULL);
}

/* The thread sanitizer keeps a parent's threads in the child, and dies where a new one has the id of one. */
static void test_pool_after_fork(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip();
#endif
    rk_pool *pool;
    OK(rk_pool_create(3, &pool));
    rk_pool *before = rk_parallel_use_pool(pool);
    rk_parallel_for(N, count, NULL);
    for (int i = 0; i < N; i++) atomic_store(&times_run[i], 0);
    pid_t child = fork();
    if (child == 0) {
        rk_parallel_for(N, count, NULL);
        rk_pool_free(pool);
        int wrong = 0;
        for (int i = 0; i < N; i++) wrong |= atomic_load(&times_run[i]) != 1;
        _exit(wrong);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    rk_parallel_use_pool(before);
    rk_pool_free(pool);
}

static void test_alone(void **state) {
    (void)state;
    OK(rk_parallel_set_threads(3));
    pthread_t self = pthread_self();
    assert_false(rk_parallel_set_serial(true));
    rk_parallel_for(20, is_self, &self);
    assert_true(rk_parallel_set_serial(true));
    assert_true(rk_parallel_set_serial(false));
    assert_false(bad_thread);
}

static void test_limits(void **state) {
    (void)state;
    FAILS(rk_parallel_set_threads(-1), RK_INVALID_ARGUMENT, "-1 threads: must be 0 to 1024");
    OK(rk_parallel_set_threads(0));
    assert_true(rk_parallel_threads() >= 1);
    rk_parallel_for(0, count, NULL);
    rk_pool *pool = NULL;
    FAILS(rk_pool_create(1025, &pool), RK_INVALID_ARGUMENT, "1025 threads: must be 0 to 1024");
    rk_alloc_fail_after(1, false);
    assert_int_equal(rk_pool_create(2, &pool), RK_NO_MEMORY);
    rk_alloc_fail_after(0, false);
    assert_null(pool);
    OK(rk_pool_create(0, &pool));
    assert_int_equal(rk_pool_threads(pool), rk_cpu_count());
    rk_pool_free(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_task_once),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_from_several_threads),
        cmocka_unit_test(test_after_fork),
        cmocka_unit_test(test_pools),
        cmocka_unit_test(test_worker_that_does_not_come),
        cmocka_unit_test(test_shared_pool),
        cmocka_unit_test(test_pool_after_fork),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
