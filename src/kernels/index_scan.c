/* The bodies of the kernels of index_scan.h, compiled once for each instruction set. */
#ifdef __AVX512BW__
#include <immintrin.h>
#endif

#include "base/float16.h"
#include "kernels/inline/lane_sum.h"
#include "kernels/kernel_list.h"

#ifdef __AVX512BW__
/* Compilers find no way to add up four rows at once; without, the sums across a register take as long as the
 * products. */
enum { AT_ONCE = 32, ROWS = 4 };

static inline __m512i add_neighbouring_lanes(__m512i a, __m512i b) {
    return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}

/* The sums of four registers, one behind the other. */
static inline __m128i sum_four_registers(const __m512i *a) {
    __m512i low = add_neighbouring_lanes(a[0], a[1]), high = add_neighbouring_lanes(a[2], a[3]);
    __m512i four = _mm512_add_epi32(_mm512_unpacklo_epi64(low, high), _mm512_unpackhi_epi64(low, high));
    __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(four), _mm512_extracti64x4_epi64(four, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

static inline void score_four_rows(const uint8_t *codes, int64_t n_rows, int32_t dim, const int16_t *query,
                                   int32_t *out) {
    __m512i sums[ROWS] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(),
                          _mm512_setzero_si512()};
    int32_t d = 0;
    for (; d + AT_ONCE <= dim; d += AT_ONCE) {
        __m512i q = _mm512_loadu_si512(query + d);
        for (int r = 0; r < ROWS; r++) {
            const uint8_t *row = codes + (r < n_rows ? r : 0) * dim + d;
            __m512i c = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)row));
            sums[r] = _mm512_add_epi32(sums[r], _mm512_madd_epi16(c, q));
        }
    }
    if (d < dim) {
        __mmask32 rest = ((__mmask32)1 << (dim - d)) - 1;
        __m512i q = _mm512_maskz_loadu_epi16(rest, query + d);
        for (int r = 0; r < ROWS; r++) {
            const uint8_t *row = codes + (r < n_rows ? r : 0) * dim + d;
            __m512i c = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(rest, row));
            sums[r] = _mm512_add_epi32(sums[r], _mm512_madd_epi16(c, q));
        }
    }
    __m128i four = sum_four_registers(sums);
    if (n_rows >= ROWS)
        _mm_storeu_si128((__m128i *)out, four);
    else
        _mm_mask_storeu_epi32(out, (__mmask8)((1u << n_rows) - 1), four);
}

void RK_KERNEL_NAME(rk_code_products)(const uint8_t *codes, int64_t n, int32_t dim, const int16_t *query,
                                      int32_t *out) {
    int64_t i = 0;
    for (; i + ROWS <= n; i += ROWS) score_four_rows(codes + i * dim, ROWS, dim, query, out + i);
    if (i < n) score_four_rows(codes + i * dim, n - i, dim, query, out + i);
}
#else
void RK_KERNEL_NAME(rk_code_products)(const uint8_t *codes, int64_t n, int32_t dim, const int16_t *query,
                                      int32_t *out) {
    for (int64_t i = 0; i < n; i++, codes += dim) {
        int32_t sum = 0;
        for (int32_t d = 0; d < dim; d++) sum += (int32_t)(int16_t)codes[d] * query[d];
        out[i] = sum;
    }
}
#endif

void RK_KERNEL_NAME(rk_row_products)(const rk_loose_f32 *rows, int64_t n, int32_t dim, const float *query,
                                     float *out) {
    for (int64_t i = 0; i < n; i++, rows += dim) {
        float lanes[RK_LANES] = {0}, eight[8], four[4];
        int32_t d = 0;
        for (; d + RK_LANES <= dim; d += RK_LANES)
            for (int l = 0; l < RK_LANES; l++) lanes[l] += rows[d + l] * query[d + l];
        for (int l = 0; d < dim; d++, l++) lanes[l] += rows[d] * query[d];
        for (int l = 0; l < 8; l++) eight[l] = lanes[l] + lanes[l + 8];
        for (int l = 0; l < 4; l++) four[l] = eight[l] + eight[l + 4];
        out[i] = (four[0] + four[2]) + (four[1] + four[3]);
    }
}

void RK_KERNEL_NAME(rk_floats_to_ordered_keys)(const float *values, int64_t n, int32_t *keys) {
    for (int64_t i = 0; i < n; i++) keys[i] = rk_f32_bits_to_ordered((int32_t)rk_f32_bits(values[i] + 0.0f));
}

void RK_KERNEL_NAME(rk_find_keys_above)(const int32_t *keys, int64_t n, int32_t least, int32_t *found,
                                        int64_t *n_found) {
    int64_t m = 0, i = 0;
    for (; i + RK_LANES <= n; i += RK_LANES) {
        int32_t any = 0;
        for (int l = 0; l < RK_LANES; l++) any |= keys[i + l] >= least;
        for (int l = 0; any && l < RK_LANES; l++) {
            found[m] = (int32_t)(i + l);
            m += keys[i + l] >= least;
        }
    }
    for (; i < n; i++) {
        found[m] = (int32_t)i;
        m += keys[i] >= least;
    }
    *n_found = m;
}

void RK_KERNEL_NAME(rk_rows_argmax)(const float *scores, int64_t n_rows, int64_t n, uint32_t *best) {
    for (int64_t r = 0; r < n_rows; r++, scores += n) {
        float most[RK_LANES], largest = scores[0];
        int64_t i = 0;
        for (int l = 0; l < RK_LANES; l++) most[l] = scores[0];
        for (; i + RK_LANES <= n; i += RK_LANES)
            for (int l = 0; l < RK_LANES; l++) most[l] = scores[i + l] > most[l] ? scores[i + l] : most[l];
        for (; i < n; i++) largest = scores[i] > largest ? scores[i] : largest;
        for (int l = 0; l < RK_LANES; l++) largest = most[l] > largest ? most[l] : largest;
        for (i = 0; i < n - 1 && scores[i] != largest; i++) {
        }
        best[r] = (uint32_t)i;
    }
}
