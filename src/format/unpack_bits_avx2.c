#ifdef __x86_64__
#include <immintrin.h>

#include "format/unpack_bits.h"

/* Eight numbers begin every `bits` bytes, always at the same places in them: of each, four bytes are moved to
 * a lane of their own and shifted. The upper four are read from where the fifth begins. */
rk_packed_range rk_unpack_bits_avx2(const rk_packed_ints *packed, int64_t n, int64_t *out, int64_t *n_done) {
    const size_t bits = (size_t)packed->bits, upper = bits / 2, last = upper + 16;
    uint8_t places[32];
    uint32_t shifts[8];
    for (size_t i = 0; i < 8; i++) {
        size_t bit = i * bits - (i < 4 ? 0 : upper * 8);
        for (size_t b = 0; b < 4; b++) places[4 * i + b] = (uint8_t)(bit / 8 + b);
        shifts[i] = (uint32_t)(bit % 8);
    }
    const __m256i place = _mm256_loadu_si256((const __m256i *)(const void *)places),
                  shift = _mm256_loadu_si256((const __m256i *)(const void *)shifts);
    const __m256i mask = _mm256_set1_epi32((int)((1u << bits) - 1)),
                  base = _mm256_set1_epi64x((long long)packed->base);
    __m256i least = _mm256_set1_epi32(INT32_MAX), greatest = _mm256_setzero_si256();
    int64_t i = 0;
    for (size_t at = 0; i + 8 <= n && at + last <= packed->n_bytes; i += 8, at += bits) {
        const uint8_t *from = packed->data + at;
        __m256i bytes = _mm256_loadu2_m128i((const __m128i *)(const void *)(from + upper),
                                            (const __m128i *)(const void *)from);
        __m256i numbers = _mm256_and_si256(_mm256_srlv_epi32(_mm256_shuffle_epi8(bytes, place), shift), mask);
        least = _mm256_min_epi32(least, numbers);
        greatest = _mm256_max_epi32(greatest, numbers);
        __m256i low = _mm256_cvtepu32_epi64(_mm256_castsi256_si128(numbers)),
                high = _mm256_cvtepu32_epi64(_mm256_extracti128_si256(numbers, 1));
        _mm256_storeu_si256((__m256i *)(void *)(out + i), _mm256_add_epi64(low, base));
        _mm256_storeu_si256((__m256i *)(void *)(out + i + 4), _mm256_add_epi64(high, base));
    }
    uint32_t leasts[8], greatests[8];
    _mm256_storeu_si256((__m256i *)(void *)leasts, least);
    _mm256_storeu_si256((__m256i *)(void *)greatests, greatest);
    rk_packed_range range = {UINT64_MAX, 0};
    for (size_t k = 0; i && k < 8; k++) {
        range.least = leasts[k] < range.least ? leasts[k] : range.least;
        range.greatest = greatests[k] > range.greatest ? greatests[k] : range.greatest;
    }
    *n_done = i;
    return range;
}
#else
typedef int rk_unpack_bits_avx2_none;
#endif
