#include "data/team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/memory.h"
#include "base/trace.h"

struct rk_team {
    pthread_mutex_t mutex;
    pthread_cond_t work, done;
    pthread_t *threads;     /* [n_threads], without the caller */
    int n_threads, n_busy;
    unsigned loop;          /* number of the loop that runs or ran last */
    bool stop;
    void (*task)(void *context, size_t task);
    void *context;
    size_t n_tasks;
    atomic_size_t next;
};

static void run_tasks(rk_team *team) {
    for (size_t i; (i = atomic_fetch_add(&team->next, 1)) < team->n_tasks;) team->task(team->context, i);
}

static void *work(void *argument) {
    rk_team *team = argument;
    rk_trace_name_thread("reader's helper");
    pthread_mutex_lock(&team->mutex);
    for (unsigned seen = 0;;) {
        while (team->loop == seen && !team->stop) pthread_cond_wait(&team->work, &team->mutex);
        if (team->stop) break;
        seen = team->loop;
        pthread_mutex_unlock(&team->mutex);
        run_tasks(team);
        pthread_mutex_lock(&team->mutex);
        if (--team->n_busy == 0) pthread_cond_signal(&team->done);
    }
    pthread_mutex_unlock(&team->mutex);
    return NULL;
}

rk_status rk_team_create(int n_threads, rk_team **out) {
    rk_team *team = NULL;
    if (n_threads > 1) {
        RK_TRY(rk_alloc(1, sizeof *team, &team));
        pthread_mutex_init(&team->mutex, NULL);
        pthread_cond_init(&team->work, NULL);
        pthread_cond_init(&team->done, NULL);
        rk_status status = rk_alloc((size_t)n_threads - 1, sizeof *team->threads, &team->threads);
        while (status == RK_OK && team->n_threads < n_threads - 1) {
            int code = pthread_create(&team->threads[team->n_threads], NULL, work, team);
            if (code != 0) status = rk_error_errno(RK_NO_MEMORY, code, "could not start a reader's thread");
            team->n_threads += code == 0;
        }
        if (status != RK_OK) {
            rk_team_free(team);
            return status;
        }
    }
    *out = team;
    return RK_OK;
}

void rk_team_free(rk_team *team) {
    if (!team) return;
    pthread_mutex_lock(&team->mutex);
    team->stop = true;
    pthread_cond_broadcast(&team->work);
    pthread_mutex_unlock(&team->mutex);
    for (int i = 0; i < team->n_threads; i++) pthread_join(team->threads[i], NULL);
    pthread_mutex_destroy(&team->mutex);
    pthread_cond_destroy(&team->work);
    pthread_cond_destroy(&team->done);
    rk_free(team->threads);
    rk_free(team);
}

void rk_team_run(rk_team *team, size_t n_tasks, void (*task)(void *context, size_t task), void *context) {
    if (!team || n_tasks < 2) {
        for (size_t i = 0; i < n_tasks; i++) task(context, i);
        return;
    }
    pthread_mutex_lock(&team->mutex);
    team->task = task;
    team->context = context;
    team->n_tasks = n_tasks;
    atomic_store(&team->next, 0);
    team->n_busy = team->n_threads;
    team->loop++;
    pthread_cond_broadcast(&team->work);
    pthread_mutex_unlock(&team->mutex);
    run_tasks(team);
    pthread_mutex_lock(&team->mutex);
    while (team->n_busy > 0) pthread_cond_wait(&team->done, &team->mutex);
    pthread_mutex_unlock(&team->mutex);
}
