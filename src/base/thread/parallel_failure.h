/* The failure of a parallel loop: that of the lowest task that failed, carried from its thread to the
 * caller's. */
#ifndef RK_BASE_THREAD_PARALLEL_FAILURE_H
#define RK_BASE_THREAD_PARALLEL_FAILURE_H

#include <pthread.h>
#include <stdint.h>

#include "base/error.h"

typedef struct rk_parallel_failure {
    pthread_mutex_t mutex;
    rk_status status;
    int64_t task;
    char message[1024];
} rk_parallel_failure;
#define RK_FAILURE_INIT \
    { .mutex = PTHREAD_MUTEX_INITIALIZER, .status = RK_OK }

/* Keep this thread's last error if `status` is one and no task with a lower number has failed. Any thread. */
void rk_parallel_failure_record(rk_parallel_failure *failure, int64_t task, rk_status status);

/* After the loop: RK_OK, or the failure as this thread's last error. */
rk_status rk_parallel_failure_status(const rk_parallel_failure *failure);

#endif
