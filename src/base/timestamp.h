/* Times of a stream of data: microseconds since the epoch. */
#ifndef RK_BASE_TIMESTAMP_H
#define RK_BASE_TIMESTAMP_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define RK_NO_TIMESTAMP INT64_MIN

/* Seconds beyond these are no times of events: milliseconds, perhaps. */
#define RK_MOST_TIMESTAMP_SECONDS 100000000000ll
enum { RK_MICROSECONDS = 1000000 };
#define RK_MOST_TIMESTAMP (RK_MOST_TIMESTAMP_SECONDS * RK_MICROSECONDS)

/* false: it is no number, or beyond those. */
static inline bool rk_timestamp_from_seconds(double seconds, int64_t *out) {
    if (!(fabs(seconds) <= (double)RK_MOST_TIMESTAMP_SECONDS)) return false;
    *out = llround(seconds * RK_MICROSECONDS);
    return true;
}

/* A batch's, as a caller says it; NaN: it has none. */
static inline rk_status rk_timestamp_of_batch(double seconds, int64_t *out) {
    if (isnan(seconds))
        *out = RK_NO_TIMESTAMP;
    else
        RK_FAIL_IF(!rk_timestamp_from_seconds(seconds, out), RK_INVALID_ARGUMENT,
                   "%g is no time in seconds since the epoch\nhint: give seconds, not milliseconds", seconds);
    return RK_OK;
}

static inline int64_t rk_later_timestamp(int64_t a, int64_t b) {
    return a > b ? a : b;
}

#endif
