#include "comm/progress_thread.h"

#include "base/thread/clock.h"
#include "base/thread/trace.h"

/* Until there is a sum to move on; false: it is to stop. */
static bool wait_for_running_sums(rk_progress_thread *a, uint64_t *begin, unsigned *n_pauses) {
    rk_comm *comm = a->comm;
    pthread_mutex_lock(&comm->sums_mutex);
    if (!comm->sums && *begin) {
        rk_trace_end(*begin, "sums of ranks under way");
        *begin = 0;
    }
    while (!comm->sums && !a->stops) {
        *n_pauses = 0;
        pthread_cond_wait(&comm->sums_begun, &comm->sums_mutex);
    }
    bool goes_on = !a->stops;
    pthread_mutex_unlock(&comm->sums_mutex);
    if (*begin == 0) *begin = rk_trace_begin();
    return goes_on;
}

/* Where nothing has come for long, the next will not come soon, and waits in the sockets meanwhile. */
static void pause_between_looks(double since, unsigned *n_pauses) {
    const double LEAST = 100e-6, MOST = 400e-6;
    double s = (rk_clock_seconds() - since) / 16;
    if (s < LEAST)
        rk_comm_spin_or_sleep(n_pauses);
    else
        nanosleep(&(struct timespec){0, (long)((s < MOST ? s : MOST) * 1e9)}, NULL);
}

static void advance_sums_until_stopped(rk_progress_thread *a) {
    rk_comm *comm = a->comm;
    uint64_t begin = 0, n_moves = 0;
    unsigned n_pauses = 0;
    double since = rk_clock_seconds();
    while (wait_for_running_sums(a, &begin, &n_pauses) && rk_all_reduces_advance(comm, true) == RK_OK) {
        uint64_t n = atomic_load(&comm->n_sum_moves);
        if (n != n_moves || n_pauses == 0) since = rk_clock_seconds();
        n_moves = n;
        pause_between_looks(since, &n_pauses);
    }
}

static void set_has_progress_thread(rk_comm *comm, bool has) {
    pthread_mutex_lock(&comm->sums_mutex);
    comm->has_progress_thread = has;
    pthread_cond_broadcast(&comm->sums_ended);
    pthread_mutex_unlock(&comm->sums_mutex);
}

static void *run_progress_thread(void *context) {
    rk_progress_thread *a = context;
    rk_trace_name_thread("sums");
    set_has_progress_thread(a->comm, true);
    advance_sums_until_stopped(a);
    set_has_progress_thread(a->comm, false);
    return NULL;
}

rk_status rk_progress_thread_init(rk_progress_thread *a, rk_comm *comm) {
    *a = (rk_progress_thread){.comm = comm};
    RK_FAIL_IF(pthread_create(&a->thread, NULL, run_progress_thread, a) != 0, RK_NO_MEMORY,
               "could not start a thread");
    a->runs = true;
    return RK_OK;
}

void rk_progress_thread_release(rk_progress_thread *a) {
    if (!a->runs) return;
    pthread_mutex_lock(&a->comm->sums_mutex);
    a->stops = true;
    pthread_cond_broadcast(&a->comm->sums_begun);
    pthread_mutex_unlock(&a->comm->sums_mutex);
    pthread_join(a->thread, NULL);
    *a = (rk_progress_thread){0};
}
