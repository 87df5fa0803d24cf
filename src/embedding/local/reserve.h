/* Arrays that grow to the largest batch seen and stay: no allocation in the steady state. */
#ifndef RK_EMBEDDING_LOCAL_RESERVE_H
#define RK_EMBEDDING_LOCAL_RESERVE_H

#include "base/memory.h"

/* Room for n elements in *array (a pointer to the array pointer), with some to spare where it grows. */
static inline rk_status rk_reserve(void *array, size_t *capacity, size_t n, size_t bytes) {
    if (n <= *capacity) return RK_OK;
    size_t wanted = n + n / 4;
    RK_TRY(rk_realloc(wanted, bytes, array));
    *capacity = wanted;
    return RK_OK;
}

#endif
