#include "comm/mpi/mpi_watchdog.h"

#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "base/thread/clock.h"

static void *run_watchdog(void *context) {
    rk_mpi_watchdog *watchdog = context;
    struct timespec until = rk_clock_deadline(CLOCK_MONOTONIC, (double)((time_t)watchdog->timeout_s + 1));
    pthread_mutex_lock(&watchdog->mutex);
    int code = 0;
    while (!watchdog->is_over && code != ETIMEDOUT)
        code = pthread_cond_timedwait(&watchdog->changed, &watchdog->mutex, &until);
    if (!watchdog->is_over) {
        rk_log(RK_LOG_ERROR, "MPI did not %s within %g s: a rank has died or hangs", watchdog->what,
               watchdog->timeout_s);
        _exit(1);
    }
    pthread_mutex_unlock(&watchdog->mutex);
    return NULL;
}

void rk_mpi_watchdog_begin(rk_mpi_watchdog *watchdog, double timeout_s, const char *what) {
    *watchdog = (rk_mpi_watchdog){.timeout_s = timeout_s, .what = what};
    pthread_mutex_init(&watchdog->mutex, NULL);
    rk_cond_init_monotonic(&watchdog->changed); /* no jump of the time of day is a lost rank */
    watchdog->is_watched = pthread_create(&watchdog->thread, NULL, run_watchdog, watchdog) == 0;
}

void rk_mpi_watchdog_end(rk_mpi_watchdog *watchdog) {
    pthread_mutex_lock(&watchdog->mutex);
    watchdog->is_over = true;
    pthread_cond_signal(&watchdog->changed);
    pthread_mutex_unlock(&watchdog->mutex);
    if (watchdog->is_watched) pthread_join(watchdog->thread, NULL);
    pthread_cond_destroy(&watchdog->changed);
    pthread_mutex_destroy(&watchdog->mutex);
}
