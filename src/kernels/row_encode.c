/* The bodies of rk_halves_round, rk_int8_rows and rk_int4_rows (kernels/kernels.h), compiled once for each
 * instruction set. */
#include <string.h>

#include "base/float16.h"
#include "kernels/kernel_list.h"

enum { INFINITE = 0x7F800000 };

void RK_KERNEL_NAME(rk_halves_round)(const float *restrict from, int64_t n, bool bf16,
                                     uint16_t *restrict out) {
    if (bf16)
        for (int64_t i = 0; i < n; i++) out[i] = rk_bf16_from_f32_finite(from[i]);
    else
        for (int64_t i = 0; i < n; i++) out[i] = rk_f16_from_f32_finite(from[i]);
}

/* A float's bits in the order of the values, and back: whole numbers have a least one in any order of
 * comparing, so that the compiler takes many at once. */
static inline int32_t ordered(int32_t bits) {
    return bits ^ (bits >> 31 & INT32_MAX);
}

/* False: the row's values span no finite range. */
static inline bool find_range(const float *row, int64_t dim, float *least, float *greatest) {
    int32_t low = INT32_MAX, high = INT32_MIN;
    for (int64_t i = 0; i < dim; i++) {
        int32_t key = ordered((int32_t)rk_f32_bits(row[i]));
        low = key < low ? key : low;
        high = key > high ? key : high;
    }
    *least = rk_f32_from_bits((uint32_t)ordered(low));
    *greatest = rk_f32_from_bits((uint32_t)ordered(high));
    return high < INFINITE && low > ordered((int32_t)(INT32_MIN | INFINITE)) &&
           *greatest - *least < rk_f32_from_bits(INFINITE);
}

/* To the nearest whole number, half to even, of 0 .. most: the sum with ROUND has no bits below 1. */
static inline int32_t code_of(float value, float least, float inverse, int32_t most) {
    const float ROUND = 0x1.8p23f;
    int32_t code = (int32_t)(((value - least) * inverse + ROUND) - ROUND);
    code = code < 0 ? 0 : code;
    return code > most ? most : code;
}

static inline void codes_of(const float *row, int64_t n, float least, float inverse, int32_t most,
                            uint8_t *restrict codes) {
    for (int64_t i = 0; i < n; i++) codes[i] = (uint8_t)code_of(row[i], least, inverse, most);
}

static bool int8_row(const float *row, int64_t dim, uint8_t *out) {
    float least, greatest;
    if (!find_range(row, dim, &least, &greatest)) return false;
    float range = greatest - least, tail[2] = {range / 255.0f, least}, inverse = 255.0f / (range + 1e-8f);
    codes_of(row, dim, least, inverse, 255, out);
    memcpy(out + dim, tail, sizeof tail);
    return true;
}

static bool int4_row(const float *row, int64_t dim, uint8_t *out) {
    enum { BLOCK = 256 };
    float least, greatest;
    if (!find_range(row, dim, &least, &greatest)) return false;
    uint16_t least_half = rk_f16_from_f32(least);
    least = rk_f16_to_f32(least_half);
    float range = greatest - least, scale = range == 0 ? 1.0f : range / 15;
    scale = rk_f16_to_f32(rk_f16_from_f32(scale));
    const float infinite = rk_f32_from_bits(INFINITE);
    if (scale == 0 || 1.0f / scale == infinite) scale = 1.0f;
    uint16_t tail[2] = {rk_f16_from_f32(scale), least_half};
    float inverse = 1.0f / scale;
    if (least == -infinite || least == infinite || scale == infinite) return false;
    for (int64_t i = 0; i < dim; i += BLOCK) {
        int64_t n = dim - i < BLOCK ? dim - i : BLOCK;
        uint8_t codes[BLOCK + 1];
        codes_of(row + i, n, least, inverse, 15, codes);
        codes[n] = 0; /* beside the last one of an odd number */
        for (int64_t p = 0; p < (n + 1) / 2; p++)
            out[i / 2 + p] = (uint8_t)(codes[2 * p] | codes[2 * p + 1] << 4);
    }
    memcpy(out + (dim + 1) / 2, tail, sizeof tail);
    return true;
}

void RK_KERNEL_NAME(rk_int8_rows)(const float *from, int64_t n, int64_t dim, uint8_t *out, int64_t *failed) {
    int64_t width = dim + (int64_t)(2 * sizeof(float)), r = 0;
    while (r < n && int8_row(from + r * dim, dim, out + r * width)) r++;
    *failed = r < n ? r : -1;
}

void RK_KERNEL_NAME(rk_int4_rows)(const float *from, int64_t n, int64_t dim, uint8_t *out, int64_t *failed) {
    int64_t width = (dim + 1) / 2 + (int64_t)(2 * sizeof(uint16_t)), r = 0;
    while (r < n && int4_row(from + r * dim, dim, out + r * width)) r++;
    *failed = r < n ? r : -1;
}
