/* Rows as f32 and back: included by the kernels that read and write rows, once for each instruction set. */
#ifndef RK_KERNELS_INLINE_ROW_LOAD_STORE_H
#define RK_KERNELS_INLINE_ROW_LOAD_STORE_H

#include <string.h>

#include "base/float16.h"
#include "base/rng.h"
#include "kernels/inline/column_random_bits.h"
#include "kernels/inline/row_decode.h"
#include "kernels/rows.h"

/* dim: the rows', a constant where the caller knows it, here and below. */
ROW_INLINE void load_row(const rk_rows *rows, int64_t row, float *restrict out, int32_t dim) {
    row_layout layout = row_layout_of(rows);
    row_decode(row_locate_values(rows, row, layout, dim), layout, out, dim);
}

#ifdef __AVX2__
typedef uint32_t row_bits __attribute__((vector_size(ROW_VECTOR_BYTES), aligned(4), may_alias));

/* The larger of each two, and whether any is above a limit. */
#ifdef __AVX512F__
ROW_INLINE row_bits max_of_bits(row_bits a, row_bits b) {
    return (row_bits)_mm512_max_epu32((__m512i)a, (__m512i)b);
}
ROW_INLINE bool is_any_above(row_bits a, uint32_t limit) {
    return _mm512_cmpgt_epu32_mask((__m512i)a, _mm512_set1_epi32((int32_t)limit)) != 0;
}
ROW_INLINE void store_high_halves(row_bits bits, uint16_t *to) {
    _mm256_storeu_si256((__m256i_u *)to, _mm512_cvtepi32_epi16((__m512i)(bits >> 16)));
}
#else
ROW_INLINE row_bits max_of_bits(row_bits a, row_bits b) {
    return (row_bits)_mm256_max_epu32((__m256i)a, (__m256i)b);
}
ROW_INLINE bool is_any_above(row_bits a, uint32_t limit) {
    return _mm256_movemask_epi8(_mm256_cmpgt_epi32((__m256i)a, _mm256_set1_epi32((int32_t)limit))) != 0;
}
ROW_INLINE void store_high_halves(row_bits bits, uint16_t *to) {
    __m256i halves = (__m256i)(bits >> 16);
    _mm_storeu_si128((__m128i_u *)to,
                     _mm_packus_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1)));
}
#endif

/* rk_bf16_from_f32_stochastic of a row of whole vectors: what is dropped is added to, which carries into what
 * is kept. False: a value is not finite or may round up to infinity, and has to be looked at by itself. */
ROW_INLINE bool store_bf16_vectors(const float *restrict values, const uint32_t words[2], int32_t column,
                                   uint16_t *restrict to, int32_t dim) {
    const uint32_t step = words[1] | 1u, most = 0x7F7F0000u; /* the largest bf16 */
    row_bits number, large = {0};
    for (int32_t l = 0; l < ROW_VECTOR; l++) number[l] = (uint32_t)l;
    row_bits hashed = words[0] + (number + (uint32_t)column) * step;
#pragma GCC unroll 32
    for (int32_t v = 0; v < dim / ROW_VECTOR; v++) {
        row_bits random = hashed, bits = *(const row_bits *)(const void *)(values + v * ROW_VECTOR);
        MIX_RANDOM_BITS(random);
        large = max_of_bits(large, bits & 0x7FFFFFFFu);
        store_high_halves(bits + (random & 0xFFFFu), to + v * ROW_VECTOR);
        hashed += ROW_VECTOR * step;
    }
    return !is_any_above(large, most);
}
#endif

ROW_INLINE void store_bf16_row(const float *restrict values, const uint32_t words[2], int32_t column,
                               uint16_t *restrict to, int32_t dim) {
#ifdef __AVX2__
    if (row_is_whole_vectors(dim) && store_bf16_vectors(values, words, column, to, dim)) return;
#endif
    for (int32_t k = 0; k < dim; k++)
        to[k] = rk_bf16_from_f32_stochastic(values[k], column_random_bits(words, column + k));
}

/* Of any dim: few tables have such rows. */
static __attribute__((noinline)) void store_f16_row(const float *restrict values, const uint32_t words[2],
                                                    int32_t column, uint16_t *restrict to, int32_t dim) {
    for (int32_t k = 0; k < dim; k++)
        to[k] = rk_f16_from_f32_stochastic(values[k], column_random_bits(words, column + k));
}

/* words: those of the row, the first two of its block. */
ROW_INLINE void store_row(const rk_rows *rows, int64_t row, const float *restrict values,
                          const uint32_t words[2], int32_t dim) {
    uint16_t *to = (uint16_t *)rows->data + row * dim;
    if (rows->dtype == RK_F32)
        memcpy((float *)rows->data + row * dim, values, (size_t)dim * sizeof *values);
    else if (rows->dtype == RK_BF16)
        store_bf16_row(values, words, rows->first_column, to, dim);
    else
        store_f16_row(values, words, rows->first_column, to, dim);
}

#endif
