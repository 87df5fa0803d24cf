#ifdef __x86_64__
#include <immintrin.h>

#include "format/text/csv_index_bits.h"

static inline uint32_t find_special_bytes32(const char *at, char separator, char quote) {
    __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)at);
    __m256i fields = _mm256_or_si256(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(separator)),
                                     _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('\n')));
    __m256i others = _mm256_or_si256(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(quote)),
                                     _mm256_cmpeq_epi8(bytes, _mm256_setzero_si256()));
    return (uint32_t)_mm256_movemask_epi8(_mm256_or_si256(fields, others));
}

static inline uint64_t find_special_bytes(const char *at, char separator, char quote) {
    return find_special_bytes32(at, separator, quote) |
           (uint64_t)find_special_bytes32(at + 32, separator, quote) << 32;
}

size_t rk_csv_find_separators_avx2(const char *data, size_t n_bytes, char separator, char quote,
                                   uint32_t *out) {
    RK_CSV_INDEX_LOOP(find_special_bytes);
}
#else
typedef int rk_csv_index_avx2_none;
#endif
