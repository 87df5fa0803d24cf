/* A limit on the memory that a test takes beyond what it has, so that what asks for more fails and what takes
 * more is seen. */
#ifndef RK_MEMORY_LIMIT_H
#define RK_MEMORY_LIMIT_H

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "testing.h"

static inline void limit_memory(size_t n_bytes) {
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
