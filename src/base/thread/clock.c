#include "base/thread/clock.h"

static double read_clock_seconds(clockid_t clock) {
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
    return read_clock_seconds(CLOCK_MONOTONIC);
}

double rk_clock_wall_seconds(void) {
    return read_clock_seconds(CLOCK_REALTIME);
}

struct timespec rk_clock_deadline(clockid_t clock, double seconds) {
    struct timespec at;
    clock_gettime(clock, &at);
    int64_t ns = at.tv_nsec + (int64_t)(seconds * 1e9);
    at.tv_sec += (time_t)(ns / 1000000000);
    at.tv_nsec = (long)(ns % 1000000000);
    return at;
}

void rk_cond_init_monotonic(pthread_cond_t *cond) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}
