/* Watches calls of MPI that may wait for other ranks without end: a thread beside the call looks at the
 * clock. */
#ifndef RK_COMM_MPI_MPI_WATCHDOG_H
#define RK_COMM_MPI_MPI_WATCHDOG_H

#include <pthread.h>
#include <stdbool.h>

typedef struct rk_mpi_watchdog {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    double timeout_s;
    const char *what; /* "start", "end": what MPI is to do */
    bool is_over, is_watched;
} rk_mpi_watchdog;

/* If the call is not over after timeout_s, log so and end the process: nothing else ends such a call. */
void rk_mpi_watchdog_begin(rk_mpi_watchdog *watchdog, double timeout_s, const char *what);
void rk_mpi_watchdog_end(rk_mpi_watchdog *watchdog);

#endif
