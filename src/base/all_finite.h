/* Whether numbers are finite, many at a time. */
#ifndef RK_BASE_ALL_FINITE_H
#define RK_BASE_ALL_FINITE_H

#include <stdbool.h>
#include <stdint.h>

/* In integers, which compilers make vectors of: the exponent's bits are all ones in infinities and NaNs
 * alone. */
static inline bool rk_all_finite(const float *values, int64_t n) {
    uint32_t wrong = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        __builtin_memcpy(&bits, &values[i], sizeof bits);
        wrong |= (bits & 0x7F800000u) == 0x7F800000u;
    }
    return !wrong;
}

#endif
