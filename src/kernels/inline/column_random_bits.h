/* The random bits that a row's values are rounded by. */
#ifndef RK_KERNELS_INLINE_COLUMN_RANDOM_BITS_H
#define RK_KERNELS_INLINE_COLUMN_RANDOM_BITS_H

#include <stdint.h>

#include "base/device_code.h"

/* A column's, by hashing its number with the row's two words (the constants are Wellons' lowbias32). */
RK_DEVICE_CODE static inline uint32_t column_random_bits(const uint32_t words[4], int32_t k) {
    uint32_t x = words[0] + (uint32_t)k * (words[1] | 1u);
    x = (x ^ x >> 16) * 0x7FEB352Du;
    x = (x ^ x >> 15) * 0x846CA68Bu;
    return x ^ x >> 16;
}

#endif
