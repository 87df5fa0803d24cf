#include "base/thread/clock.h"

#include <time.h>

static double seconds_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

uint64_t rk_clock_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

double rk_clock_seconds(void) {
    return seconds_of(CLOCK_MONOTONIC);
}

double rk_clock_wall_seconds(void) {
    return seconds_of(CLOCK_REALTIME);
}
