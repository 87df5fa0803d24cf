#include "comm/mpi/mpi_watchdog.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

static void *watch_clock(void *context) {
    rk_mpi_watch *watch = context;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)watch->timeout_s + 1;
    pthread_mutex_lock(&watch->mutex);
    int code = 0;
    while (!watch->is_over && code != ETIMEDOUT) code = pthread_cond_timedwait(&watch->changed, &watch->mutex, &until);
    if (!watch->is_over) {
        rk_log(RK_LOG_ERROR, "MPI did not %s within %g s: a rank is lost", watch->what, watch->timeout_s);
        _exit(1);
    }
    pthread_mutex_unlock(&watch->mutex);
    return NULL;
}

void rk_mpi_watch_begin(rk_mpi_watch *watch, double timeout_s, const char *what) {
    *watch = (rk_mpi_watch){.timeout_s = timeout_s, .what = what};
    pthread_mutex_init(&watch->mutex, NULL);
    pthread_condattr_t attributes; /* no jump of the time of day is a lost rank */
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    watch->is_watched = pthread_create(&watch->thread, NULL, watch_clock, watch) == 0;
}

void rk_mpi_watch_end(rk_mpi_watch *watch) {
    pthread_mutex_lock(&watch->mutex);
    watch->is_over = true;
    pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->mutex);
    if (watch->is_watched) pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->changed);
    pthread_mutex_destroy(&watch->mutex);
}
