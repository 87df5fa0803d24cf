/* A thread that drives a communicator's all_reduces while their callers compute. It sleeps while none runs.
 */
#ifndef RK_COMM_PROGRESS_THREAD_H
#define RK_COMM_PROGRESS_THREAD_H

#include "comm/comm.h"

typedef struct rk_progress_thread {
    rk_comm *comm;
    pthread_t thread;
    bool runs, stops; /* stops: under the communicator's sums_mutex */
} rk_progress_thread;

/* The communicator must outlive it. A failure ends the communicator, and is returned by the next wait of
 * anybody. */
rk_status rk_progress_thread_init(rk_progress_thread *progress_thread, rk_comm *comm);
void rk_progress_thread_release(rk_progress_thread *progress_thread); /* a zeroed one is fine */

#endif
