/* Times of a stream of data: microseconds since the epoch. */
#ifndef RK_BASE_TIMESTAMP_H
#define RK_BASE_TIMESTAMP_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

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

static inline int64_t rk_later_timestamp(int64_t a, int64_t b) {
    return a > b ? a : b;
}

#endif
