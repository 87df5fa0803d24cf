/* bf16 and f16 values as uint16_t bits. */
#ifndef RK_BASE_FLOAT16_H
#define RK_BASE_FLOAT16_H

#include <stdint.h>
#include <string.h>

static inline float rk_f32_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline uint32_t rk_f32_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float rk_bf16_to_f32(uint16_t half) { return rk_f32_from_bits((uint32_t)half << 16); }

/* To nearest even; NaN stays NaN. (These are written without branches, so that loops over them become vectors.) */
static inline uint16_t rk_bf16_from_f32(float value) {
    uint32_t bits = rk_f32_bits(value), rounded = (bits + 0x7FFFu + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40u;
    return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded);
}

/* Up with the probability of what is dropped, by the low 16 bits of `random`; overflow saturates to the largest finite value. */
static inline uint16_t rk_bf16_from_f32_stochastic(float value, uint32_t random) {
    uint32_t bits = rk_f32_bits(value), magnitude = bits & 0x7FFFFFFFu, rounded = (magnitude + (random & 0xFFFFu)) >> 16;
    rounded = rounded > 0x7F7Fu ? 0x7F7Fu : rounded;
    uint32_t finite = (bits >> 16 & 0x8000u) | rounded;
    return (uint16_t)(magnitude >= 0x7F800000u ? rk_bf16_from_f32(value) : finite);
}

/* The exponent moves by a product, which makes subnormals right too. */
static inline float rk_f16_to_f32(uint16_t half) {
    uint32_t magnitude = (uint32_t)(half & 0x7FFFu) << 13, sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t scaled = rk_f32_bits(rk_f32_from_bits(magnitude) * 0x1p112f), special = magnitude | 0x7F800000u;
    return rk_f32_from_bits(sign | ((half & 0x7C00u) == 0x7C00u ? special : scaled));
}

uint16_t rk_f16_from_f32(float value);                              /* to nearest even; overflow gives infinity */
uint16_t rk_f16_from_f32_stochastic(float value, uint32_t random); /* overflow saturates to the largest finite */

#endif
