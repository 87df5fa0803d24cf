#include "base/thread/parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/thread/cpu.h"
#include "base/memory.h"

enum { MAX_THREADS = 1024, SPINS = 2000, LITTLE_WORK = 32768 };

/* One loop: what to run, the next task to take, and how many workers are still in it. */
static struct {
    pthread_mutex_t mutex; /* guards what follows up to `stop`, and the waits */
    pthread_cond_t work, done;
    pthread_t *threads;    /* [n_workers] */
    int n_workers, wanted; /* wanted: threads with the caller, 0 = not decided */
    bool stop;
    void (*on_start)(void);
    rk_task task;
    void *context;
    size_t n_tasks;
    atomic_size_t next;
    atomic_uint generation; /* a new number wakes the workers */
    atomic_int running;     /* workers that have not yet left the loop */
} pool = {
    .mutex = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static pthread_mutex_t loop_mutex =
    PTHREAD_MUTEX_INITIALIZER; /* held by the thread whose loop the pool runs */
static _Thread_local bool inside_task;

static void run_tasks(int thread) {
    inside_task = true;
    for (size_t task; (task = atomic_fetch_add_explicit(&pool.next, 1, memory_order_relaxed)) < pool.n_tasks;)
        pool.task(pool.context, task, thread);
    inside_task = false;
}

static void relax(void) {
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

/* Wait for a generation other than `seen`; false when the pool stops. */
static bool wait_for_work(unsigned seen) {
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&pool.generation, memory_order_acquire) != seen) break;
        relax();
    }
    pthread_mutex_lock(&pool.mutex);
    while (atomic_load(&pool.generation) == seen && !pool.stop) pthread_cond_wait(&pool.work, &pool.mutex);
    bool go = !pool.stop;
    pthread_mutex_unlock(&pool.mutex);
    return go;
}

static void *worker(void *argument) {
    int thread = (int)(size_t)argument;
    if (pool.on_start) pool.on_start();
    for (unsigned seen = 0; wait_for_work(seen);) {
        seen = atomic_load(&pool.generation);
        run_tasks(thread);
        if (atomic_fetch_sub_explicit(&pool.running, 1, memory_order_acq_rel) == 1) {
            pthread_mutex_lock(&pool.mutex);
            pthread_cond_signal(&pool.done);
            pthread_mutex_unlock(&pool.mutex);
        }
    }
    return NULL;
}

static void stop_workers(void) {
    pthread_mutex_lock(&pool.mutex);
    pool.stop = true;
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.mutex);
    for (int i = 0; i < pool.n_workers; i++) pthread_join(pool.threads[i], NULL);
    free(pool.threads);
    pool.threads = NULL;
    pool.n_workers = 0;
    pool.stop = false;
}

/* A forked child has none of its parent's threads. */
static void forget_workers(void) {
    pthread_mutex_init(&pool.mutex, NULL);
    pthread_mutex_init(&loop_mutex, NULL);
    pthread_cond_init(&pool.work, NULL);
    pthread_cond_init(&pool.done, NULL);
    free(pool.threads);
    pool.threads = NULL;
    pool.n_workers = 0;
}

static int decide_threads(void) {
    const char *text = getenv("RK_THREADS");
    long n = text ? strtol(text, NULL, 10) : 0;
    if (n <= 0 || n > MAX_THREADS) n = rk_cpu_count();
    return (int)n;
}

/* Under loop_mutex. The threads are the pool's own memory, outside rk_alloc: they outlive every object that a
 * leak check counts. */
static void start_workers(void) {
    static bool registered;
    if (!registered) {
        pthread_atfork(NULL, NULL, forget_workers);
        atexit(stop_workers);
        registered = true;
    }
    int n = pool.wanted - 1;
    pool.threads = malloc((size_t)n * sizeof *pool.threads);
    if (!pool.threads) return;
    atomic_store(&pool.generation, 0);
    while (pool.n_workers < n && pthread_create(&pool.threads[pool.n_workers], NULL, worker,
                                                (void *)(size_t)(pool.n_workers + 1)) == 0)
        pool.n_workers++;
}

static void run_serially(size_t n_tasks, rk_task task, void *context) {
    bool was_inside = inside_task;
    inside_task = true;
    for (size_t i = 0; i < n_tasks; i++) task(context, i, 0);
    inside_task = was_inside;
}

void rk_parallel_for(size_t n_tasks, rk_task task, void *context) {
    if (n_tasks < 2 || inside_task || pthread_mutex_trylock(&loop_mutex) != 0) {
        run_serially(n_tasks, task, context);
        return;
    }
    if (!pool.wanted) pool.wanted = decide_threads();
    if (pool.wanted > 1 && pool.n_workers == 0) start_workers();
    if (pool.n_workers == 0) {
        run_serially(n_tasks, task, context);
        pthread_mutex_unlock(&loop_mutex);
        return;
    }
    pthread_mutex_lock(&pool.mutex);
    pool.task = task;
    pool.context = context;
    pool.n_tasks = n_tasks;
    atomic_store(&pool.next, 0);
    atomic_store(&pool.running, pool.n_workers);
    atomic_fetch_add(&pool.generation, 1);
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.mutex);
    run_tasks(0);
    for (int i = 0; i < SPINS && atomic_load_explicit(&pool.running, memory_order_acquire) > 0; i++) relax();
    pthread_mutex_lock(&pool.mutex);
    while (atomic_load(&pool.running) > 0) pthread_cond_wait(&pool.done, &pool.mutex);
    pthread_mutex_unlock(&pool.mutex);
    pthread_mutex_unlock(&loop_mutex);
}

void rk_parallel_for_work(size_t n_tasks, uint64_t work, rk_task task, void *context) {
    if (work < LITTLE_WORK)
        run_serially(n_tasks, task, context);
    else
        rk_parallel_for(n_tasks, task, context);
}

bool rk_parallel_set_alone(bool alone) {
    bool was = inside_task;
    inside_task = alone;
    return was;
}

rk_status rk_parallel_set_threads(int n_threads) {
    RK_FAIL_IF(n_threads < 0 || n_threads > MAX_THREADS, RK_INVALID_ARGUMENT, "%d threads: must be 0 to %d",
               n_threads, MAX_THREADS);
    RK_FAIL_IF(inside_task, RK_INVALID_ARGUMENT,
               "the number of threads cannot change inside a parallel loop");
    pthread_mutex_lock(&loop_mutex);
    stop_workers();
    pool.wanted = n_threads ? n_threads : decide_threads();
    pthread_mutex_unlock(&loop_mutex);
    return RK_OK;
}

int rk_parallel_threads(void) {
    if (inside_task && pool.wanted) return pool.wanted;
    pthread_mutex_lock(&loop_mutex);
    if (!pool.wanted) pool.wanted = decide_threads();
    int n = pool.wanted;
    pthread_mutex_unlock(&loop_mutex);
    return n;
}

void rk_parallel_on_thread_start(void (*hook)(void)) {
    pthread_mutex_lock(&loop_mutex);
    if (pool.on_start != hook) {
        stop_workers();
        pool.on_start = hook;
    }
    pthread_mutex_unlock(&loop_mutex);
}
