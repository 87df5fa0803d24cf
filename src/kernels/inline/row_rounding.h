/* Rows of whole vectors rounded to 16 bits: included by the kernels that write rows, once for each
 * instruction set. */
#ifndef RK_KERNELS_INLINE_ROW_ROUNDING_H
#define RK_KERNELS_INLINE_ROW_ROUNDING_H

#ifdef __AVX2__
#include <immintrin.h>
#include <stdbool.h>

#include "kernels/inline/column_random_bits.h"
#include "kernels/inline/row_sum.h"

/* Of COLUMNS_APART columns. */
enum { ROUNDED_VECTORS = COLUMNS_APART / ROW_VECTOR };
typedef uint32_t row_bits __attribute__((vector_size(ROW_VECTOR_BYTES), aligned(4), may_alias));

#ifdef __AVX512F__
ROW_INLINE bool has_any_bits(row_bits bits, uint32_t mask) {
    return _mm512_test_epi32_mask((__m512i)bits, _mm512_set1_epi32((int32_t)mask)) != 0;
}
ROW_INLINE row_bits max_of_bits(row_bits a, row_bits b) {
    return (row_bits)_mm512_max_epu32((__m512i)a, (__m512i)b);
}

/* rk_bf16_from_f32_stochastic: what is dropped is added to, which carries into what is kept. */
ROW_INLINE void store_rounded_to_bf16(const float *from, const row_bits *random, uint16_t *to) {
    __m512i bits = (__m512i)(*(const row_bits *)(const void *)from + random[0]);
    _mm256_storeu_si256((__m256i_u *)to, _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
}

/* The same of two vectors: both's upper halves in one shuffle. */
ROW_INLINE void store_pair_rounded_to_bf16(const float *from, row_bits low, row_bits high, uint16_t *to) {
    typedef uint16_t halves __attribute__((vector_size(ROW_VECTOR_BYTES)));
    halves upper;
    for (int i = 0; i < 2 * ROW_VECTOR; i++) upper[i] = (uint16_t)(2 * i + 1);
    const row_bits *bits = (const row_bits *)(const void *)from;
    _mm512_storeu_si512(
        to, _mm512_permutex2var_epi16((__m512i)(bits[0] + low), (__m512i)upper, (__m512i)(bits[1] + high)));
}

/* rk_f16_from_f32_stochastic: random parts of the result's last place are added, which those below the
 * smallest normal number have in common; then both the sum and the result are rounded toward zero. */
ROW_INLINE void store_rounded_to_f16(const float *from, const row_bits *random, uint16_t *to) {
    enum { TOWARD_ZERO = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC };
    row_bits bits = *(const row_bits *)(const void *)from;
    __m512i exponent = _mm512_max_epi32((__m512i)(bits & 0x7F800000u), _mm512_set1_epi32(0x38800000));
    row_bits part = ((row_bits)exponent - (26u << 23)) | (bits & 0x80000000u);
    __m512 sum = _mm512_fmadd_round_ps(_mm512_cvtepi32_ps((__m512i)random[0]), (__m512)part, (__m512)bits,
                                       TOWARD_ZERO);
    _mm256_storeu_si256((__m256i_u *)to, _mm512_cvtps_ph(sum, TOWARD_ZERO));
}
#else
ROW_INLINE bool has_any_bits(row_bits bits, uint32_t mask) {
    return !_mm256_testz_si256((__m256i)bits, _mm256_set1_epi32((int32_t)mask));
}
ROW_INLINE row_bits max_of_bits(row_bits a, row_bits b) {
    return (row_bits)_mm256_max_epu32((__m256i)a, (__m256i)b);
}

ROW_INLINE void store_sixteen_halves(row_bits first, row_bits second, uint16_t *to) {
    __m256i halves = _mm256_packus_epi32((__m256i)first, (__m256i)second);
    _mm256_storeu_si256((__m256i_u *)to, _mm256_permute4x64_epi64(halves, _MM_SHUFFLE(3, 1, 2, 0)));
}

ROW_INLINE void store_rounded_to_bf16(const float *from, const row_bits *random, uint16_t *to) {
    const row_bits *bits = (const row_bits *)(const void *)from;
    store_sixteen_halves((bits[0] + random[0]) >> 16, (bits[1] + random[1]) >> 16, to);
}

ROW_INLINE row_bits round_vector_to_f16(row_bits bits, row_bits random) {
    row_bits magnitude = bits & 0x7FFFFFFFu,
             normal = ((magnitude + (random >> 3)) >> 13) - (0x38000000u >> 13);
    __m256 scaled = _mm256_mul_ps((__m256)magnitude, _mm256_set1_ps(0x1p40f));
    row_bits small = ((row_bits)_mm256_cvttps_epi32(scaled) + random) >> 16;
    __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(0x38800000), (__m256i)magnitude);
    __m256i half = _mm256_blendv_epi8((__m256i)normal, (__m256i)small, is_small);
    return (row_bits)_mm256_min_epu32(half, _mm256_set1_epi32(0x7BFF)) | (bits >> 16 & 0x8000u);
}
ROW_INLINE void store_rounded_to_f16(const float *from, const row_bits *random, uint16_t *to) {
    const row_bits *bits = (const row_bits *)(const void *)from;
    store_sixteen_halves(round_vector_to_f16(bits[0], random[0]), round_vector_to_f16(bits[1], random[1]),
                         to);
}
#endif

ROW_INLINE void store_rounded(const float *from, const row_bits *random, bool bf16, uint16_t *to) {
    if (bf16)
        store_rounded_to_bf16(from, random, to);
    else
        store_rounded_to_f16(from, random, to);
}

ROW_INLINE bool row_is_rounded_by_vectors(int32_t dim) {
    return row_is_whole_vectors(dim) && dim % COLUMNS_APART == 0;
}

/* Whether no value is infinite, NaN or so large that it might be rounded to infinity. */
ROW_INLINE bool are_all_roundable(const float *values, int32_t dim) {
    const uint32_t magnitude = 0x7FFFFFFFu, two = 0x40000000u, beyond = 0x7F000000u; /* 2 and 2^127 */
    const row_bits *bits = (const row_bits *)(const void *)values;
    row_bits all = bits[0], largest = bits[0] & magnitude;
#pragma GCC unroll 32
    for (int32_t v = 1; v < dim / ROW_VECTOR; v++) all |= bits[v];
    if (__builtin_expect(!has_any_bits(all, two), 1)) return true; /* as in most rows */
#pragma GCC unroll 32
    for (int32_t v = 1; v < dim / ROW_VECTOR; v++) largest = max_of_bits(largest, bits[v] & magnitude);
    return !has_any_bits(largest + (0x80000000u - beyond), 0x80000000u);
}

/* column: of the row's first value, a multiple of 2 * COLUMNS_APART. */
ROW_INLINE void store_rounded_vectors(const float *values, const uint32_t words[2], int32_t column, bool bf16,
                                      uint16_t *to, int32_t dim) {
    const uint32_t step = words[1] | 1u;
    row_bits number, low[ROUNDED_VECTORS], high[ROUNDED_VECTORS];
    for (int32_t l = 0; l < ROW_VECTOR; l++) number[l] = (uint32_t)l;
    row_bits place = words[0] + (number + (uint32_t)column / 2) * step;
#pragma GCC unroll 32
    for (int32_t k = 0; k < dim; k += 2 * COLUMNS_APART) {
#pragma GCC unroll 2
        for (int v = 0; v < ROUNDED_VECTORS; v++) {
            row_bits x = place;
            MIX_RANDOM_BITS(x);
            high[v] = x >> 16;
            low[v] = (x ^ high[v]) & 0xFFFFu;
            place += ROW_VECTOR * step;
        }
#ifdef __AVX512F__
        if (bf16 && k + COLUMNS_APART < dim) {
            store_pair_rounded_to_bf16(values + k, low[0], high[0], to + k);
            continue;
        }
#endif
        store_rounded(values + k, low, bf16, to + k);
        if (k + COLUMNS_APART < dim)
            store_rounded(values + k + COLUMNS_APART, high, bf16, to + k + COLUMNS_APART);
    }
}
#endif

#endif
