/* Loops of the library run on one pool of threads, or on a caller's own (reckon/pool.h).
 *
 * A task writes what no other task writes, and adds up terms that depend on the problem only, in their order,
 * however the work is cut into tasks. So results are the same bits at any thread count. */
#ifndef RK_BASE_THREAD_PARALLEL_H
#define RK_BASE_THREAD_PARALLEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <reckon/pool.h>

#include "base/error.h"

/* task: 0..n_tasks-1. thread: 0..n_threads-1, to pick scratch memory by. */
typedef void (*rk_task)(void *context, size_t task, int thread);

/* Run all tasks and return when they are done. The caller takes part as thread 0. Calls from inside a task,
 * and calls while another thread is in one, run serially on the caller (as thread 0 of its own): correct,
 * only not parallel. */
void rk_parallel_for(size_t n_tasks, rk_task task, void *context);

/* As rk_parallel_for, but on the caller alone where all tasks together are little work, less than waking
 * other threads: some ten thousand additions or so. `work` counts them roughly. */
void rk_parallel_for_work(size_t n_tasks, uint64_t work, rk_task task, void *context);

/* memcpy, by all threads where it is much. */
void rk_parallel_copy(void *to, const void *from, size_t n_bytes);

/* alone: from now on loops of the calling thread run on it alone, beside those of others. Returns what it was
 * before. */
bool rk_parallel_set_serial(bool alone);
/* From now on loops of the calling thread run on that pool; NULL: the library's. Returns the one before. */
rk_pool *rk_parallel_use_pool(rk_pool *pool);
/* Do `statement` with loops on `pool`; NULL: where they run anyway. */
#define RK_ON_POOL(pool, statement)                                                                \
    do {                                                                                           \
        rk_pool *rk_pool_wanted_ = (pool);                                                         \
        rk_pool *rk_pool_before_ = rk_pool_wanted_ ? rk_parallel_use_pool(rk_pool_wanted_) : NULL; \
        statement;                                                                                 \
        if (rk_pool_wanted_) rk_parallel_use_pool(rk_pool_before_);                                \
    } while (0)

/* Of the library's pool: before the first loop or between loops; 0 means RK_THREADS or else the processors
 * this process may use. */
rk_status rk_parallel_set_threads(int n_threads);
int rk_parallel_threads(void); /* of the pool that loops of the calling thread run on */

/* Pieces of [0, n) in blocks of `block`: the number of tasks, and task i's range. */
static inline size_t rk_block_count(size_t n, size_t block) {
    return (n + block - 1) / block;
}

#endif
