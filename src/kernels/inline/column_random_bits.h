/* The random bits that a row's values are rounded by. */
#ifndef RK_KERNELS_INLINE_COLUMN_RANDOM_BITS_H
#define RK_KERNELS_INLINE_COLUMN_RANDOM_BITS_H

#include <stdint.h>

#include "base/device_code.h"

/* Columns that one hash serves are so far apart: vectors of columns are then served by vectors of hashes, of
 * which the first takes the low halves and the second the high ones. */
enum { COLUMNS_APART = 16 };

/* Mixes the bits of x, a number or a vector of numbers (the constants are Wellons' lowbias32), but for the
 * last step, which the low half alone would be changed by: x ^ x >> 16. */
#define MIX_RANDOM_BITS(x)               \
    do {                                 \
        x = (x ^ x >> 16) * 0x7FEB352Du; \
        x = (x ^ x >> 15) * 0x846CA68Bu; \
    } while (0)

/* A column's 16 bits: half of the hash of the column's place and the row's two words. */
RK_DEVICE_CODE static inline uint32_t column_random_bits(const uint32_t words[2], int32_t k) {
    uint32_t column = (uint32_t)k,
             place = column / (2 * COLUMNS_APART) * COLUMNS_APART + column % COLUMNS_APART;
    uint32_t x = words[0] + place * (words[1] | 1u);
    MIX_RANDOM_BITS(x);
    return column & COLUMNS_APART ? x >> 16 : (x ^ x >> 16) & 0xFFFFu;
}

#endif
