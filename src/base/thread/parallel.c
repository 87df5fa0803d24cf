#include "base/thread/parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread/instruction_set.h"
#include "base/memory.h"

enum { MAX_THREADS = 1024, SPINS = 2000, LITTLE_WORK = 32768 };

/* `inside` of a loop that no worker may enter any more: all its tasks are done. */
enum { CLOSED = -1 };

/* One loop at a time: what to run, the next task to take, and how many workers are in it. A worker that comes
 * when all is done stays outside, so that no loop waits for a thread that the system has not run yet. */
struct rk_pool {
    pthread_mutex_t loop;  /* held by the thread whose loop the pool runs */
    pthread_mutex_t mutex; /* guards what follows up to `stop`, and the waits */
    pthread_cond_t work, done;
    struct rk_worker *workers; /* [n_workers] */
    int n_workers, wanted;     /* wanted: threads with the caller, 0 = not decided */
    bool stop;
    rk_task task;
    void *context;
    size_t n_tasks;
    atomic_size_t next;
    atomic_uint generation;  /* the loop's number: a worker enters each once */
    atomic_int inside;       /* workers that are in the loop, or CLOSED */
    rk_pool *before, *after; /* in the list of all pools, of which the library's is the first */
};

typedef struct rk_worker {
    pthread_t thread;
    rk_pool *pool;
    int number;
} rk_worker;

static rk_pool library_pool = {.loop = PTHREAD_MUTEX_INITIALIZER,
                               .mutex = PTHREAD_MUTEX_INITIALIZER,
                               .work = PTHREAD_COND_INITIALIZER,
                               .done = PTHREAD_COND_INITIALIZER};
static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER; /* guards the list of all pools */
static _Thread_local bool inside_task;
static _Thread_local rk_pool *own_pool; /* NULL: the library's */

static rk_pool *pool_of_thread(void) {
    return own_pool ? own_pool : &library_pool;
}

static void run_tasks(rk_pool *pool, int thread) {
    inside_task = true;
    for (size_t task;
         (task = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed)) < pool->n_tasks;)
        pool->task(pool->context, task, thread);
    inside_task = false;
}

static void cpu_relax(void) {
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

/* Into a loop other than `seen`, if one is open. */
static bool enter_loop(rk_pool *pool, unsigned seen) {
    if (atomic_load_explicit(&pool->generation, memory_order_relaxed) == seen) return false;
    int inside = atomic_load_explicit(&pool->inside, memory_order_relaxed);
    while (inside != CLOSED)
        if (atomic_compare_exchange_weak_explicit(&pool->inside, &inside, inside + 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return true;
    return false;
}

/* Wait for a loop other than `seen` and enter it; false when the pool stops. */
static bool wait_for_loop(rk_pool *pool, unsigned seen) {
    for (int i = 0; i < SPINS; i++) {
        if (enter_loop(pool, seen)) return true;
        cpu_relax();
    }
    pthread_mutex_lock(&pool->mutex);
    bool entered = false;
    while (!pool->stop && !(entered = enter_loop(pool, seen))) pthread_cond_wait(&pool->work, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
    return entered;
}

static void leave_loop(rk_pool *pool) {
    if (atomic_fetch_sub_explicit(&pool->inside, 1, memory_order_acq_rel) != 1) return;
    pthread_mutex_lock(&pool->mutex);
    pthread_cond_signal(&pool->done);
    pthread_mutex_unlock(&pool->mutex);
}

static void *run_worker(void *argument) {
    const rk_worker *self = argument;
    rk_pool *pool = own_pool = self->pool;
    for (unsigned seen = 0; wait_for_loop(pool, seen);) {
        seen = atomic_load(&pool->generation);
        run_tasks(pool, self->number);
        leave_loop(pool);
    }
    return NULL;
}

static void stop_workers(rk_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    pool->stop = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < pool->n_workers; i++) pthread_join(pool->workers[i].thread, NULL);
    free(pool->workers);
    pool->workers = NULL;
    pool->n_workers = 0;
    pool->stop = false;
}

static void init_pool_locks(rk_pool *pool) {
    pthread_mutex_init(&pool->loop, NULL);
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->done, NULL);
}

/* A forked child has none of its parent's threads. */
static void reset_pools_after_fork(void) {
    pthread_mutex_init(&list_mutex, NULL);
    for (rk_pool *pool = &library_pool; pool; pool = pool->after) {
        init_pool_locks(pool);
        free(pool->workers);
        pool->workers = NULL;
        pool->n_workers = 0;
        pool->stop = false; /* which another thread may have been about to take back */
    }
}

static void stop_library_pool(void) {
    stop_workers(&library_pool);
}

static void register_fork_and_exit_handlers(void) {
    pthread_atfork(NULL, NULL, reset_pools_after_fork);
    atexit(stop_library_pool);
}

static int default_thread_count(void) {
    const char *text = getenv("RK_THREADS");
    long n = text ? strtol(text, NULL, 10) : 0;
    if (n <= 0 || n > MAX_THREADS) n = rk_cpu_count();
    return (int)n;
}

/* Under `loop`. The threads are the pool's own memory, outside rk_alloc: the library's outlive every object
 * that a leak check counts. */
static void start_workers(rk_pool *pool) {
    static pthread_once_t registered = PTHREAD_ONCE_INIT;
    pthread_once(&registered, register_fork_and_exit_handlers);
    int n = pool->wanted - 1;
    pool->workers = malloc((size_t)n * sizeof *pool->workers);
    if (!pool->workers) return;
    atomic_store(&pool->generation, 0);
    atomic_store(&pool->inside, CLOSED);
    for (rk_worker *w; pool->n_workers < n; pool->n_workers++) {
        w = &pool->workers[pool->n_workers];
        *w = (rk_worker){.pool = pool, .number = pool->n_workers + 1};
        if (pthread_create(&w->thread, NULL, run_worker, w) != 0) break;
    }
    if (pool->n_workers > 0) return;
    free(pool->workers);
    pool->workers = NULL;
}

static void run_serially(size_t n_tasks, rk_task task, void *context) {
    bool was_inside = inside_task;
    inside_task = true;
    for (size_t i = 0; i < n_tasks; i++) task(context, i, 0);
    inside_task = was_inside;
}

static void open_loop(rk_pool *pool, size_t n_tasks, rk_task task, void *context) {
    pthread_mutex_lock(&pool->mutex);
    pool->task = task;
    pool->context = context;
    pool->n_tasks = n_tasks;
    atomic_store(&pool->next, 0);
    atomic_fetch_add(&pool->generation, 1);
    atomic_store(&pool->inside, 0);
    pthread_mutex_unlock(&pool->mutex);
    pthread_cond_broadcast(&pool->work);
}

static bool close_if_none_inside(rk_pool *pool) {
    int none = 0;
    return atomic_compare_exchange_strong_explicit(&pool->inside, &none, CLOSED, memory_order_acquire,
                                                   memory_order_relaxed);
}

static void close_loop(rk_pool *pool) {
    for (int i = 0; i < SPINS; i++) {
        if (close_if_none_inside(pool)) return;
        cpu_relax();
    }
    pthread_mutex_lock(&pool->mutex);
    while (!close_if_none_inside(pool)) pthread_cond_wait(&pool->done, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
}

void rk_parallel_for(size_t n_tasks, rk_task task, void *context) {
    rk_pool *pool = pool_of_thread();
    if (n_tasks < 2 || inside_task || pthread_mutex_trylock(&pool->loop) != 0) {
        run_serially(n_tasks, task, context);
        return;
    }
    if (!pool->wanted) pool->wanted = default_thread_count();
    if (pool->wanted > 1 && pool->n_workers == 0) start_workers(pool);
    if (pool->n_workers > 0) {
        open_loop(pool, n_tasks, task, context);
        run_tasks(pool, 0);
        close_loop(pool);
    } else {
        run_serially(n_tasks, task, context);
    }
    pthread_mutex_unlock(&pool->loop);
}

void rk_parallel_for_work(size_t n_tasks, uint64_t work, rk_task task, void *context) {
    if (work < LITTLE_WORK)
        run_serially(n_tasks, task, context);
    else
        rk_parallel_for(n_tasks, task, context);
}

enum { COPY_BLOCK = 1 << 16 }; /* bytes a task */
typedef struct copying {
    char *to;
    const char *from;
    size_t n_bytes;
} copying;

static void copy_block(void *context, size_t task, int thread) {
    (void)thread;
    const copying *c = context;
    size_t first = task * COPY_BLOCK, rest = c->n_bytes - first;
    memcpy(c->to + first, c->from + first, rest < COPY_BLOCK ? rest : COPY_BLOCK);
}

void rk_parallel_copy(void *to, const void *from, size_t n_bytes) {
    copying c = {to, from, n_bytes};
    rk_parallel_for_work(rk_block_count(n_bytes, COPY_BLOCK), n_bytes / 8, copy_block, &c);
}

bool rk_parallel_set_serial(bool alone) {
    bool was = inside_task;
    inside_task = alone;
    return was;
}

rk_pool *rk_parallel_use_pool(rk_pool *pool) {
    rk_pool *was = own_pool;
    own_pool = pool;
    return was;
}

static rk_status check_thread_count(int n_threads) {
    RK_FAIL_IF(n_threads < 0 || n_threads > MAX_THREADS, RK_INVALID_ARGUMENT, "%d threads: must be 0 to %d",
               n_threads, MAX_THREADS);
    return RK_OK;
}

rk_status rk_parallel_set_threads(int n_threads) {
    rk_pool *pool = &library_pool;
    RK_TRY(check_thread_count(n_threads));
    RK_FAIL_IF(inside_task, RK_INVALID_ARGUMENT,
               "the number of threads cannot change inside a parallel loop");
    pthread_mutex_lock(&pool->loop);
    stop_workers(pool);
    pool->wanted = n_threads ? n_threads : default_thread_count();
    pthread_mutex_unlock(&pool->loop);
    return RK_OK;
}

int rk_parallel_threads(void) {
    rk_pool *pool = pool_of_thread();
    if (pool != &library_pool || (inside_task && pool->wanted)) return pool->wanted;
    pthread_mutex_lock(&pool->loop);
    if (!pool->wanted) pool->wanted = default_thread_count();
    int n = pool->wanted;
    pthread_mutex_unlock(&pool->loop);
    return n;
}

rk_status rk_pool_create(int n_threads, rk_pool **out) {
    rk_pool *pool;
    RK_TRY(check_thread_count(n_threads));
    RK_TRY(rk_alloc(1, sizeof *pool, &pool));
    init_pool_locks(pool);
    pool->wanted = n_threads ? n_threads : rk_cpu_count();
    pthread_mutex_lock(&list_mutex);
    pool->before = &library_pool;
    pool->after = library_pool.after;
    if (pool->after) pool->after->before = pool;
    library_pool.after = pool;
    pthread_mutex_unlock(&list_mutex);
    *out = pool;
    return RK_OK;
}

void rk_pool_free(rk_pool *pool) {
    if (!pool) return;
    stop_workers(pool);
    pthread_mutex_lock(&list_mutex);
    pool->before->after = pool->after;
    if (pool->after) pool->after->before = pool->before;
    pthread_mutex_unlock(&list_mutex);
    pthread_mutex_destroy(&pool->loop);
    pthread_mutex_destroy(&pool->mutex);
    pthread_cond_destroy(&pool->work);
    pthread_cond_destroy(&pool->done);
    rk_free(pool);
}

int rk_pool_threads(const rk_pool *pool) {
    return pool->wanted;
}
