/* bf16 and f16 values as uint16_t bits. */
#ifndef RK_BASE_FLOAT16_H
#define RK_BASE_FLOAT16_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/device_code.h"

RK_DEVICE_CODE static inline float rk_f32_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
RK_DEVICE_CODE static inline uint32_t rk_f32_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* A float's bits as a whole number that is ordered as the value is, -0 below 0; and such a number's bits. */
RK_DEVICE_CODE static inline int32_t rk_f32_bits_to_ordered(int32_t bits) {
    return bits ^ (bits >> 31 & 0x7FFFFFFF);
}

RK_DEVICE_CODE static inline float rk_bf16_to_f32(uint16_t half) {
    return rk_f32_from_bits((uint32_t)half << 16);
}

/* To nearest even; NaN stays NaN. (These are written without branches, so that loops over them become
 * vectors.) */
RK_DEVICE_CODE static inline uint16_t rk_bf16_from_f32(float value) {
    uint32_t bits = rk_f32_bits(value), rounded = (bits + 0x7FFFu + (bits >> 16 & 1)) >> 16,
             quiet = bits >> 16 | 0x40u;
    return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded);
}

/* Up with the probability of what is dropped, by the low 16 bits of `random`; overflow saturates to the
 * largest finite value. */
RK_DEVICE_CODE static inline uint16_t rk_bf16_from_f32_stochastic(float value, uint32_t random) {
    uint32_t bits = rk_f32_bits(value), magnitude = bits & 0x7FFFFFFFu,
             rounded = (magnitude + (random & 0xFFFFu)) >> 16;
    rounded = rounded > 0x7F7Fu ? 0x7F7Fu : rounded;
    uint32_t finite = (bits >> 16 & 0x8000u) | rounded;
    return (uint16_t)(magnitude >= 0x7F800000u ? rk_bf16_from_f32(value) : finite);
}

/* The exponent moves by a product, which makes subnormals right too. */
RK_DEVICE_CODE static inline float rk_f16_to_f32(uint16_t half) {
    uint32_t magnitude = (uint32_t)(half & 0x7FFFu) << 13, sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t scaled = rk_f32_bits(rk_f32_from_bits(magnitude) * 0x1p112f), special = magnitude | 0x7F800000u;
    return rk_f32_from_bits(sign | ((half & 0x7C00u) == 0x7C00u ? special : scaled));
}

/* The magnitude's f16 bits, rounded to nearest even. Below 2^-40 it is zero. */
RK_DEVICE_CODE static inline uint32_t rk_f16_round_magnitude(uint32_t magnitude) {
    int exponent = (int)(magnitude >> 23) - 127;
    if (exponent < -40) return 0;
    uint64_t mantissa = magnitude & 0x7FFFFFu;
    int shift = 13;       /* bits of the mantissa that are dropped */
    if (exponent < -14) { /* subnormal in f16: the implicit one is made explicit and more bits go */
        mantissa |= 0x800000u;
        shift += -14 - exponent;
        exponent = -15;
    }
    uint32_t result = ((uint32_t)(exponent + 15) << 10) + (uint32_t)(mantissa >> shift);
    uint64_t dropped = mantissa & ((1ull << shift) - 1), half = 1ull << (shift - 1);
    return result + (dropped > half || (dropped == half && (result & 1)));
}

/* To nearest even; overflow gives infinity. */
RK_DEVICE_CODE static inline uint16_t rk_f16_from_f32(float value) {
    uint32_t bits = rk_f32_bits(value), magnitude = bits & 0x7FFFFFFFu;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    if (magnitude > 0x7F800000u) return (uint16_t)(sign | 0x7E00);
    if (magnitude >= 0x47800000u) return (uint16_t)(sign | 0x7C00); /* 65536 and above */
    uint32_t result = rk_f16_round_magnitude(magnitude);
    return (uint16_t)(sign | (result > 0x7C00 ? 0x7C00 : result));
}

/* To nearest even; what is finite stays so: overflow saturates to the largest finite value. For numbers that
 * were checked before they are rounded. */
RK_DEVICE_CODE static inline uint16_t rk_bf16_from_f32_finite(float value) {
    uint16_t half = rk_bf16_from_f32(value);
    return (uint16_t)(half -
                      ((half & 0x7FFFu) == 0x7F80u && (rk_f32_bits(value) & 0x7FFFFFFFu) != 0x7F800000u));
}
/* Below the smallest normal f16 the sum with 0.5 rounds to its last bit. */
RK_DEVICE_CODE static inline uint16_t rk_f16_from_f32_finite(float value) {
    int32_t bits = (int32_t)rk_f32_bits(value), u = bits & 0x7FFFFFFF,
            normal = (u - 0x38000000 + 0xFFF + (u >> 13 & 1)) >> 13,
            small = (int32_t)rk_f32_bits(rk_f32_from_bits((uint32_t)u) + 0.5f) - 0x3F000000,
            half = u < 0x38800000 ? small : normal;
    half = half > 0x7BFF ? 0x7BFF : half;
    half = u == 0x7F800000 ? 0x7C00 : half;
    half = u > 0x7F800000 ? 0x7E00 : half;
    return (uint16_t)(half | (bits >> 16 & 0x8000));
}

/* As rk_bf16_from_f32_stochastic, with the upper 13 of the 16 bits, as 13 are dropped. Below the smallest
 * normal f16 a value is so many parts of 2^-40, of which the result's last place has 2^16: less than one part
 * is zero. Without branches, so that loops become vectors. */
RK_DEVICE_CODE static inline uint16_t rk_f16_from_f32_stochastic(float value, uint32_t random) {
    const uint32_t least_normal = 0x38800000u;
    uint32_t bits = rk_f32_bits(value), magnitude = bits & 0x7FFFFFFFu, sign = bits >> 16 & 0x8000u,
             normal = ((magnitude + ((random & 0xFFFFu) >> 3)) >> 13) - (0x38000000u >> 13);
    float parts = rk_f32_from_bits(magnitude < least_normal ? magnitude : 0u) * 0x1p40f;
    uint32_t small = ((uint32_t)(int32_t)parts + (random & 0xFFFFu)) >> 16,
             result = magnitude < least_normal ? small : normal;
    result = result > 0x7BFFu ? 0x7BFFu : result;
    result = magnitude == 0x7F800000u ? 0x7C00u : result;
    result = magnitude > 0x7F800000u ? 0x7E00u : result;
    return (uint16_t)(sign | result);
}

#endif
