/* Rows as f32: included by the kernels that read rows, once for each instruction set. */
#ifndef RK_KERNELS_INLINE_ROW_DECODE_H
#define RK_KERNELS_INLINE_ROW_DECODE_H

#ifdef __AVX2__
#include <immintrin.h>
#endif
#include <stdbool.h>
#include <string.h>

#include "base/float16.h"
#include "kernels/inline/row_sum.h"
#include "kernels/rows.h"

ROW_INLINE float row_tail(const uint8_t *at, int32_t bits) {
    float value;
    uint16_t half;
    if (bits == 8) {
        memcpy(&value, at, sizeof value);
        return value;
    }
    memcpy(&half, at, sizeof half);
    return rk_f16_to_f32(half);
}

/* A vector of codes as numbers. Those of 4 bits: each byte twice, of which one is moved down to its high
 * half. Written out, as compilers take the bytes out one by one. */
#if defined(__AVX512F__)
ROW_INLINE row_vector row_codes_load(const uint8_t *codes, int32_t bits, int32_t vector) {
    __m128i bytes;
    if (bits == 8) {
        bytes = _mm_loadu_si128((const __m128i_u *)(codes + 16 * vector));
        return (row_vector)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
    }
    bytes = _mm_loadl_epi64((const __m128i_u *)(codes + 8 * vector));
    __m512i twice = _mm512_cvtepu8_epi32(_mm_unpacklo_epi8(bytes, bytes)),
            down = _mm512_set1_epi64(4LL << 32);
    return (row_vector)_mm512_cvtepi32_ps(
        _mm512_and_si512(_mm512_srlv_epi32(twice, down), _mm512_set1_epi32(15)));
}
ROW_INLINE row_vector row_halves_load(const uint16_t *halves, bool bf16, int32_t vector) {
    __m256i bits = _mm256_loadu_si256((const __m256i_u *)(halves + 16 * vector));
    return (row_vector)(bf16 ? _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))
                             : _mm512_cvtph_ps(bits));
}
#elif defined(__AVX2__)
ROW_INLINE row_vector row_codes_load(const uint8_t *codes, int32_t bits, int32_t vector) {
    __m128i bytes;
    if (bits == 8) {
        bytes = _mm_loadl_epi64((const __m128i_u *)(codes + 8 * vector));
        return (row_vector)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
    }
    bytes = _mm_loadu_si32(codes + 4 * vector);
    __m256i twice = _mm256_cvtepu8_epi32(_mm_unpacklo_epi8(bytes, bytes)),
            down = _mm256_set1_epi64x(4LL << 32);
    return (row_vector)_mm256_cvtepi32_ps(
        _mm256_and_si256(_mm256_srlv_epi32(twice, down), _mm256_set1_epi32(15)));
}
ROW_INLINE row_vector row_halves_load(const uint16_t *halves, bool bf16, int32_t vector) {
    __m128i bits = _mm_loadu_si128((const __m128i_u *)(halves + 8 * vector));
    return (row_vector)(bf16 ? _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))
                             : _mm256_cvtph_ps(bits));
}
#else
ROW_INLINE row_vector row_codes_load(const uint8_t *codes, int32_t bits, int32_t vector) {
    row_vector out;
    for (int32_t i = 0, k = vector * ROW_VECTOR; i < ROW_VECTOR; i++, k++)
        out[i] = (float)(bits == 8 ? codes[k] : codes[k / 2] >> k % 2 * 4 & 15);
    return out;
}
ROW_INLINE row_vector row_halves_load(const uint16_t *halves, bool bf16, int32_t vector) {
    row_vector out;
    for (int32_t i = 0, k = vector * ROW_VECTOR; i < ROW_VECTOR; i++, k++)
        out[i] = bf16 ? rk_bf16_to_f32(halves[k]) : rk_f16_to_f32(halves[k]);
    return out;
}
#endif

/* dim is a constant where the caller knows it, here and below. */
ROW_INLINE void row_decode_codes(const rk_rows *rows, int64_t row, float *restrict out, int32_t dim) {
    const rk_row_codes *c = &rows->codes;
    const uint8_t *restrict codes = (const uint8_t *)rows->data + row * c->stride;
    float scale = row_tail(c->scales + row * c->tail_stride, c->bits),
          least = row_tail(c->minima + row * c->tail_stride, c->bits);
    if (row_is_vectors(dim)) {
#pragma GCC unroll 32
        for (int32_t v = 0; v < dim / ROW_VECTOR; v++)
            *(row_vector *)(out + v * ROW_VECTOR) = row_codes_load(codes, c->bits, v) * scale + least;
        return;
    }
    if (c->bits == 8) {
        for (int32_t k = 0; k < dim; k++) out[k] = (float)codes[k] * scale + least;
        return;
    }
    for (int32_t k = 0; k < dim / 2; k++) {
        out[2 * k] = (float)(codes[k] & 15) * scale + least;
        out[2 * k + 1] = (float)(codes[k] >> 4) * scale + least;
    }
    if (dim % 2) out[dim - 1] = (float)(codes[dim / 2] & 15) * scale + least;
}

ROW_INLINE void row_decode_halves(const uint16_t *restrict halves, bool bf16, float *restrict out,
                                  int32_t dim) {
    if (row_is_vectors(dim)) {
#pragma GCC unroll 32
        for (int32_t v = 0; v < dim / ROW_VECTOR; v++)
            *(row_vector *)(out + v * ROW_VECTOR) = row_halves_load(halves, bf16, v);
        return;
    }
    for (int32_t k = 0; k < dim; k++) out[k] = bf16 ? rk_bf16_to_f32(halves[k]) : rk_f16_to_f32(halves[k]);
}

/* Of rows that are not f32. */
ROW_INLINE void row_decode(const rk_rows *rows, int64_t row, float *restrict out, int32_t dim) {
    if (rows->dtype == RK_U8)
        row_decode_codes(rows, row, out, dim);
    else
        row_decode_halves((const uint16_t *)rows->data + row * dim, rows->dtype == RK_BF16, out, dim);
}

#endif
