#include "base/thread/worker_pool.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/memory.h"
#include "base/thread/trace.h"

struct rk_worker_pool {
    pthread_mutex_t mutex;
    pthread_cond_t work, done;
    pthread_t *threads; /* [n_threads], without the caller */
    int n_threads;
    bool stop;
    void (*task)(void *context, size_t task);
    void *context;
    bool *open;    /* [n_tasks] started and not yet done */
    size_t *queue; /* [n_tasks] those that wait: n_waiting of them from `first` on, around the end */
    size_t n_tasks, first, n_waiting, n_running;
};

/* Under the mutex, which is let go while the task runs. */
static void run_first_task(rk_worker_pool *team) {
    size_t task = team->queue[team->first];
    team->first = (team->first + 1) % team->n_tasks;
    team->n_waiting--;
    team->n_running++;
    pthread_mutex_unlock(&team->mutex);
    team->task(team->context, task);
    pthread_mutex_lock(&team->mutex);
    team->n_running--;
    team->open[task] = false;
}

static void *run_worker(void *argument) {
    rk_worker_pool *team = argument;
    rk_trace_name_thread("reader's helper");
    pthread_mutex_lock(&team->mutex);
    while (!team->stop) {
        if (team->n_waiting == 0) {
            pthread_cond_wait(&team->work, &team->mutex);
            continue;
        }
        run_first_task(team);
        pthread_cond_signal(&team->done);
    }
    pthread_mutex_unlock(&team->mutex);
    return NULL;
}

rk_status rk_worker_pool_create(int n_threads, size_t n_tasks, void (*task)(void *context, size_t task),
                                void *context, rk_worker_pool **out) {
    rk_worker_pool *team;
    RK_TRY(rk_alloc(1, sizeof *team, &team));
    pthread_mutex_init(&team->mutex, NULL);
    pthread_cond_init(&team->work, NULL);
    pthread_cond_init(&team->done, NULL);
    team->task = task;
    team->context = context;
    team->n_tasks = n_tasks;
    rk_status status = rk_alloc(n_tasks, sizeof *team->open, &team->open);
    if (status == RK_OK) status = rk_alloc(n_tasks, sizeof *team->queue, &team->queue);
    if (status == RK_OK) status = rk_alloc((size_t)n_threads - 1, sizeof *team->threads, &team->threads);
    while (status == RK_OK && team->n_threads < n_threads - 1) {
        int code = pthread_create(&team->threads[team->n_threads], NULL, run_worker, team);
        if (code != 0) status = rk_error_errno(RK_NO_MEMORY, code, "could not start a reader's thread");
        team->n_threads += code == 0;
    }
    if (status != RK_OK) {
        rk_worker_pool_free(team);
        return status;
    }
    *out = team;
    return RK_OK;
}

void rk_worker_pool_free(rk_worker_pool *team) {
    if (!team) return;
    pthread_mutex_lock(&team->mutex);
    team->stop = true;
    pthread_cond_broadcast(&team->work);
    pthread_mutex_unlock(&team->mutex);
    for (int i = 0; i < team->n_threads; i++) pthread_join(team->threads[i], NULL);
    pthread_mutex_destroy(&team->mutex);
    pthread_cond_destroy(&team->work);
    pthread_cond_destroy(&team->done);
    RK_FREE_ALL(team->threads, team->queue, team->open, team);
}

void rk_worker_pool_start_task(rk_worker_pool *team, size_t task) {
    pthread_mutex_lock(&team->mutex);
    team->open[task] = true;
    team->queue[(team->first + team->n_waiting++) % team->n_tasks] = task;
    pthread_cond_signal(&team->work);
    pthread_mutex_unlock(&team->mutex);
}

void rk_worker_pool_wait_for_task(rk_worker_pool *team, size_t task) {
    pthread_mutex_lock(&team->mutex);
    while (team->open[task]) {
        if (team->n_waiting > 0)
            run_first_task(team);
        else
            pthread_cond_wait(&team->done, &team->mutex);
    }
    pthread_mutex_unlock(&team->mutex);
}

void rk_worker_pool_discard_tasks(rk_worker_pool *team) {
    pthread_mutex_lock(&team->mutex);
    for (; team->n_waiting > 0; team->n_waiting--) {
        team->open[team->queue[team->first]] = false;
        team->first = (team->first + 1) % team->n_tasks;
    }
    while (team->n_running > 0) pthread_cond_wait(&team->done, &team->mutex);
    pthread_mutex_unlock(&team->mutex);
}
