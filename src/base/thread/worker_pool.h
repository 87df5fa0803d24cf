/* Threads of a reader's own: the pool of base/thread/parallel.h belongs to training, which runs at the same time. */
#ifndef RK_BASE_THREAD_WORKER_POOL_H
#define RK_BASE_THREAD_WORKER_POOL_H

#include <stddef.h>

#include "base/error.h"

typedef struct rk_team rk_team;

/* n_threads, the caller among them, for tasks 0 .. n_tasks-1. */
rk_status rk_team_create(int n_threads, size_t n_tasks, void (*task)(void *context, size_t task), void *context, rk_team **out);
void rk_team_free(rk_team *team);
/* task(context, task) will be called once, by any of the threads. It must not be on its way already. */
void rk_team_start(rk_team *team, size_t task);
/* Returns when the task is done, and does what was started before it meanwhile. */
void rk_team_finish(rk_team *team, size_t task);
/* No task is on its way: those that have not begun never will. */
void rk_team_drop(rk_team *team);

#endif
