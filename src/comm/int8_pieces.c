#include "comm/int8_pieces.h"

#include <math.h>
#include <stdint.h>

#include "base/float16.h"

static size_t n_blocks(size_t n) {
    return (n + RK_INT8_BLOCK - 1) / RK_INT8_BLOCK;
}

size_t rk_int8_piece_bytes(size_t n) {
    return n_blocks(n) * sizeof(float) + n;
}

/* out [n]: the sums; their greatest magnitude as its bits, which are ordered as magnitudes are. */
static int32_t add_residual(const float *restrict values, const float *restrict residual, size_t n,
                            float *restrict out) {
    int32_t greatest = 0;
    for (size_t i = 0; i < n; i++) {
        out[i] = values[i] + residual[i];
        int32_t magnitude = (int32_t)(rk_f32_bits(out[i]) & 0x7FFFFFFFu);
        greatest = magnitude > greatest ? magnitude : greatest;
    }
    return greatest;
}

/* To the nearest whole number: the sum with ROUND has no bits below 1. */
static void round_block(const float *restrict sums, size_t n, float scale, float inverse,
                        int8_t *restrict codes, float *restrict next) {
    const float ROUND = 0x1.8p23f;
    for (size_t i = 0; i < n; i++) {
        float code = (sums[i] * inverse + ROUND) - ROUND;
        codes[i] = (int8_t)code;
        next[i] = sums[i] - code * scale;
    }
}

static void mark_not_finite(const float *sums, size_t n, int8_t *codes) {
    for (size_t i = 0; i < n; i++) codes[i] = !isfinite(sums[i]);
}

/* 127 of which are finite. */
static const float MOST_SCALE = 0x1.020406p121f;

static void encode_block(const float *values, const float *residual, size_t n, float *scale, int8_t *codes,
                         float *next) {
    float sums[RK_INT8_BLOCK];
    float greatest = rk_f32_from_bits((uint32_t)add_residual(values, residual, n, sums));
    bool is_zero = greatest < 0x1p-110f;
    if (!isfinite(greatest)) {
        *scale = NAN;
        mark_not_finite(sums, n, codes);
        return;
    }
    *scale = is_zero ? 0 : fminf(greatest / 127, MOST_SCALE);
    round_block(sums, n, *scale, is_zero ? 0 : 127 / greatest, codes, next);
}

void rk_int8_encode(const float *values, const float *residual, size_t total, size_t first, size_t n,
                    void *piece, float *next) {
    float *scales = (float *)piece + first / RK_INT8_BLOCK;
    int8_t *codes = (int8_t *)((float *)piece + n_blocks(total)) + first;
    for (size_t at = 0; at < n; at += RK_INT8_BLOCK) {
        size_t m = n - at < RK_INT8_BLOCK ? n - at : RK_INT8_BLOCK;
        encode_block(values + at, residual + at, m, scales++, codes + at, next + at);
    }
}

static void decode_block(const int8_t *restrict codes, size_t n, float scale, float *restrict out) {
    for (size_t i = 0; i < n; i++) out[i] = (float)codes[i] * scale;
}

static void decode_marks(const int8_t *codes, size_t n, float scale, float *out) {
    for (size_t i = 0; i < n; i++) out[i] = codes[i] ? scale : 0;
}

void rk_int8_decode(const void *piece, size_t total, size_t first, size_t n, float *out) {
    const float *scales = (const float *)piece + first / RK_INT8_BLOCK;
    const int8_t *codes = (const int8_t *)((const float *)piece + n_blocks(total)) + first;
    for (size_t at = 0; at < n; at += RK_INT8_BLOCK) {
        size_t m = n - at < RK_INT8_BLOCK ? n - at : RK_INT8_BLOCK;
        float scale = *scales++;
        (isfinite(scale) ? decode_block : decode_marks)(codes + at, m, scale, out + at);
    }
}
