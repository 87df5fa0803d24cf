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

ROW_INLINE float load_row_scale_value(const uint8_t *at, int32_t bits) {
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
#endif

/* How rows lie in memory: a constant where loops over them are compiled, as dim is if it is a common one. */
typedef enum row_layout { ROW_F32, ROW_BF16, ROW_F16, ROW_CODES_8, ROW_CODES_4 } row_layout;

ROW_INLINE row_layout row_layout_of(const rk_rows *rows) {
    if (rows->dtype == RK_U8) return rows->codes.bits == 8 ? ROW_CODES_8 : ROW_CODES_4;
    return rows->dtype == RK_BF16 ? ROW_BF16 : rows->dtype == RK_F16 ? ROW_F16 : ROW_F32;
}

/* A row's values, or its codes and what makes values of them. */
typedef struct row_values {
    const uint8_t *data;
    float scale, least;
} row_values;

ROW_INLINE row_values row_locate_values(const rk_rows *rows, int64_t row, row_layout layout, int32_t dim) {
    const uint8_t *data = rows->data;
    if (layout == ROW_F32) return (row_values){data + row * dim * (int64_t)sizeof(float), 1, 0};
    if (layout == ROW_BF16 || layout == ROW_F16)
        return (row_values){data + row * dim * (int64_t)sizeof(uint16_t), 1, 0};
    const rk_row_codes *c = &rows->codes;
    const int32_t bits = layout == ROW_CODES_8 ? 8 : 4;
    int64_t tail = row * c->tail_stride;
    return (row_values){data + row * c->stride, load_row_scale_value(c->scales + tail, bits),
                        load_row_scale_value(c->minima + tail, bits)};
}

/* Whether a row is whole vectors that row_load_vector knows: decided while compiling. Without AVX2 compilers'
 * own loops decode better. */
ROW_INLINE bool row_is_decoded_by_vectors(row_layout layout, int32_t dim) {
#ifdef __AVX2__
    (void)layout;
    return row_is_whole_vectors(dim);
#else
    return row_is_whole_vectors(dim) && layout == ROW_F32;
#endif
}

ROW_INLINE row_vector row_load_vector(row_values row, row_layout layout, int32_t vector) {
#ifdef __AVX2__
    const uint16_t *halves = (const uint16_t *)(const void *)row.data;
    if (layout == ROW_BF16 || layout == ROW_F16) return row_halves_load(halves, layout == ROW_BF16, vector);
    if (layout != ROW_F32)
        return row_codes_load(row.data, layout == ROW_CODES_8 ? 8 : 4, vector) * row.scale + row.least;
#endif
    (void)layout;
    return *(const row_vector *)(row.data + (size_t)vector * sizeof(row_vector));
}

ROW_INLINE void row_decode_halves(const uint16_t *restrict halves, bool bf16, float *restrict out,
                                  int32_t dim) {
    for (int32_t k = 0; k < dim; k++) out[k] = bf16 ? rk_bf16_to_f32(halves[k]) : rk_f16_to_f32(halves[k]);
}

ROW_INLINE void row_decode_codes(row_values row, row_layout layout, float *restrict out, int32_t dim) {
    const uint8_t *restrict codes = row.data;
    if (layout == ROW_CODES_8) {
        for (int32_t k = 0; k < dim; k++) out[k] = (float)codes[k] * row.scale + row.least;
        return;
    }
    for (int32_t k = 0; k < dim / 2; k++) {
        out[2 * k] = (float)(codes[k] & 15) * row.scale + row.least;
        out[2 * k + 1] = (float)(codes[k] >> 4) * row.scale + row.least;
    }
    if (dim % 2) out[dim - 1] = (float)(codes[dim / 2] & 15) * row.scale + row.least;
}

ROW_INLINE void row_decode(row_values row, row_layout layout, float *restrict out, int32_t dim) {
    if (row_is_decoded_by_vectors(layout, dim)) {
#pragma GCC unroll 32
        for (int32_t v = 0; v < dim / ROW_VECTOR; v++)
            *(row_vector *)(out + v * ROW_VECTOR) = row_load_vector(row, layout, v);
        return;
    }
    if (layout == ROW_F32)
        memcpy(out, row.data, (size_t)dim * sizeof *out);
    else if (layout == ROW_BF16 || layout == ROW_F16)
        row_decode_halves((const uint16_t *)(const void *)row.data, layout == ROW_BF16, out, dim);
    else
        row_decode_codes(row, layout, out, dim);
}

/* sum += row, or, weighted (a constant), c * row */
ROW_INLINE void row_sum_add_decoded(row_sum *sum, float *out, bool weighted, float c, row_values row,
                                    row_layout layout, int32_t dim) {
    if (row_is_decoded_by_vectors(layout, dim)) {
#pragma GCC unroll 32
        for (int32_t v = 0; v < dim / ROW_VECTOR; v++) {
            row_vector values = row_load_vector(row, layout, v);
            sum->vectors[v] += weighted ? (row_vector)(c * values) : values;
        }
        return;
    }
    float decoded[RK_MAX_DIM];
    const float *values = layout == ROW_F32 ? (const float *)(const void *)row.data : decoded;
    if (layout != ROW_F32) row_decode(row, layout, decoded, dim);
    if (weighted)
        row_sum_add_scaled(sum, out, c, values, dim);
    else
        row_sum_add(sum, out, values, dim);
}

#endif
