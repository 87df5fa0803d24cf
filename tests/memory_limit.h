/* A limit on the memory that a test takes beyond what it has, so that what asks for more fails and what takes
 * more is seen. */
#ifndef RK_MEMORY_LIMIT_H
#define RK_MEMORY_LIMIT_H

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "testing.h"

/* Sanitizers keep what is freed, and map more than any limit: with them only the results are looked at. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LIMITS_MEMORY = 0 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
enum { LIMITS_MEMORY = 0 };
#else
enum { LIMITS_MEMORY = 1 };
#endif
#else
enum { LIMITS_MEMORY = 1 };
#endif

static inline void limit_memory(size_t n_bytes) {
    if (!LIMITS_MEMORY) return;
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld", &pages), 1);
    fclose(file);
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + n_bytes;
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
}

static inline void unlimit_memory(void) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
}

#endif
