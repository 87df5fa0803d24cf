#ifndef RK_BASE_THREAD_CLOCK_H
#define RK_BASE_THREAD_CLOCK_H

#include <stdint.h>

uint64_t rk_clock_us(void);         /* monotonic */
double rk_clock_seconds(void);      /* monotonic */
double rk_clock_wall_seconds(void); /* since 1970 */

#endif
