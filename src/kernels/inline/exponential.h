/* exp as a short loop-free expression, so that a loop of it becomes vector code without a library of vector
 * functions, with the same bits everywhere. */
#ifndef RK_KERNELS_INLINE_EXPONENTIAL_H
#define RK_KERNELS_INLINE_EXPONENTIAL_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/real.h"

#ifdef RK_REAL_F64
static inline double rk_exp(double x) {
    return exp(x);
}
#else
/* 2^n e^r with |r| <= ln 2 / 2 and Taylor's polynomial of degree 7 for e^r: relative error below 2e-7. 0
 * below -87, e^88 above 88, NaN of NaN. */
static inline float rk_exp(float x) {
    float at = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
    const float magic =
        12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number, which the sum's low bits then are */
    float sum = at * 1.44269504f + magic;
    float n = sum - magic;
    float r = (at - n * 0.693359375f) + n * 2.12194440e-4f; /* ln 2 in two parts */
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t
        bits; /* unsigned: NaN, which p carries to the result, has no whole number and must not overflow */
    memcpy(&bits, &sum, sizeof bits);
    bits = (bits + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return x < -87.0f ? 0.0f : p * power;
}
#endif

#endif
