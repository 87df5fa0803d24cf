/* The random bits that a row's values are rounded by. */
#ifndef RK_KERNELS_INLINE_COLUMN_RANDOM_BITS_H
#define RK_KERNELS_INLINE_COLUMN_RANDOM_BITS_H

#include <stdint.h>

#include "base/device_code.h"

/* Mixes the bits of x, a number or a vector of numbers (the constants are Wellons' lowbias32). */
#define MIX_RANDOM_BITS(x)               \
    do {                                 \
        x = (x ^ x >> 16) * 0x7FEB352Du; \
        x = (x ^ x >> 15) * 0x846CA68Bu; \
        x = x ^ x >> 16;                 \
    } while (0)

/* A column's, by hashing its number with the row's two words. */
RK_DEVICE_CODE static inline uint32_t column_random_bits(const uint32_t words[2], int32_t k) {
    uint32_t x = words[0] + (uint32_t)k * (words[1] | 1u);
    MIX_RANDOM_BITS(x);
    return x;
}

#endif
