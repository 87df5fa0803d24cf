#ifndef RK_BASE_THREAD_CLOCK_H
#define RK_BASE_THREAD_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

uint64_t rk_clock_us(void);         /* monotonic */
double rk_clock_seconds(void);      /* monotonic */
double rk_clock_wall_seconds(void); /* since 1970 */

/* So many seconds from now, as waits until a time take it. */
struct timespec rk_clock_deadline(clockid_t clock, double seconds);
/* A condition whose timed waits are until a time of CLOCK_MONOTONIC, which no change of the time of day
 * moves. */
void rk_cond_init_monotonic(pthread_cond_t *cond);

#endif
