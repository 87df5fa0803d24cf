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
uint16_t rk_bf16_from_f32(float value);                          /* to nearest even; NaN stays NaN */
uint16_t rk_bf16_from_f32_stochastic(float value, uint32_t random); /* uses the low 16 bits of random; overflow saturates to the largest finite */
float rk_f16_to_f32(uint16_t half);
uint16_t rk_f16_from_f32(float value);                           /* to nearest even; overflow gives infinity */
uint16_t rk_f16_from_f32_stochastic(float value, uint32_t random); /* overflow saturates to the largest finite */

#endif
