#ifdef __x86_64__
#include <immintrin.h>

#include "format/text/csv_index_bits.h"

static inline uint64_t find_special_bytes(const char *at, char separator, char quote) {
    __m512i bytes = _mm512_loadu_si512(at);
    return _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(separator)) |
           _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('\n')) |
           _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(quote)) | _mm512_testn_epi8_mask(bytes, bytes);
}

size_t rk_csv_find_separators_avx512(const char *data, size_t n_bytes, char separator, char quote,
                                     uint32_t *out) {
    RK_CSV_INDEX_LOOP(find_special_bytes);
}
#else
typedef int rk_csv_index_avx512_none;
#endif
