#include "base/float16.h"

#include <stdbool.h>

enum { F16_LARGEST = 0x7BFF };

/* The magnitude's f16 bits, rounded to nearest even, or up with the dropped part's probability. Below 2^-40 it is zero:
 * 16 random bits cannot tell such a probability from none. */
static uint32_t f16_magnitude(uint32_t magnitude, uint32_t random, bool stochastic) {
    int exponent = (int)(magnitude >> 23) - 127;
    if (exponent < -40) return 0;
    uint64_t mantissa = magnitude & 0x7FFFFFu;
    int shift = 13; /* bits of the mantissa that are dropped */
    if (exponent < -14) { /* subnormal in f16: the implicit one is made explicit and more bits go */
        mantissa |= 0x800000u;
        shift += -14 - exponent;
        exponent = -15;
    }
    uint32_t result = ((uint32_t)(exponent + 15) << 10) + (uint32_t)(mantissa >> shift);
    uint64_t dropped = mantissa & ((1ull << shift) - 1), half = 1ull << (shift - 1);
    bool up = stochastic ? dropped << 16 > (uint64_t)(random & 0xFFFFu) << shift : dropped > half || (dropped == half && (result & 1));
    return result + up;
}

uint16_t rk_f16_from_f32(float value) {
    uint32_t bits = rk_f32_bits(value), magnitude = bits & 0x7FFFFFFFu;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    if (magnitude > 0x7F800000u) return sign | 0x7E00;
    if (magnitude >= 0x47800000u) return sign | 0x7C00; /* 65536 and above */
    uint32_t result = f16_magnitude(magnitude, 0, false);
    return (uint16_t)(sign | (result > 0x7C00 ? 0x7C00 : result));
}

uint16_t rk_f16_from_f32_stochastic(float value, uint32_t random) {
    uint32_t bits = rk_f32_bits(value), magnitude = bits & 0x7FFFFFFFu;
    if (magnitude >= 0x7F800000u) return rk_f16_from_f32(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    uint32_t result = magnitude >= 0x47800000u ? F16_LARGEST : f16_magnitude(magnitude, random, true);
    return (uint16_t)(sign | (result > F16_LARGEST ? F16_LARGEST : result));
}
