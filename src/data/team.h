/* Threads of a reader's own: the pool of base/parallel.h belongs to training, which runs at the same time. */
#ifndef RK_DATA_TEAM_H
#define RK_DATA_TEAM_H

#include <stddef.h>

#include "base/error.h"

typedef struct rk_team rk_team;

/* n_threads, the caller among them. One alone needs no team: *out = NULL. */
rk_status rk_team_create(int n_threads, rk_team **out);
void rk_team_free(rk_team *team);
/* task(context, 0 .. n_tasks-1), each once, by any of the threads; returns when all are done. */
void rk_team_run(rk_team *team, size_t n_tasks, void (*task)(void *context, size_t task), void *context);

#endif
