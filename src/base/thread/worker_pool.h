/* Threads of a reader's own. The pool of base/thread/parallel.h belongs to training, which runs at the same
 * time. */
#ifndef RK_BASE_THREAD_WORKER_POOL_H
#define RK_BASE_THREAD_WORKER_POOL_H

#include <stddef.h>

#include "base/error.h"

typedef struct rk_worker_pool rk_worker_pool;

/* n_threads, the caller among them, for tasks 0 .. n_tasks-1. */
rk_status rk_worker_pool_create(int n_threads, size_t n_tasks, void (*task)(void *context, size_t task),
                                void *context, rk_worker_pool **out);
void rk_worker_pool_free(rk_worker_pool *team);
/* task(context, task) will be called once, by any of the threads. It must not be on its way already. */
void rk_worker_pool_start_task(rk_worker_pool *team, size_t task);
/* Returns when the task is done, and does what was started before it meanwhile. */
void rk_worker_pool_wait_for_task(rk_worker_pool *team, size_t task);
/* No task is on its way: those that have not begun never will. */
void rk_worker_pool_discard_tasks(rk_worker_pool *team);

#endif
