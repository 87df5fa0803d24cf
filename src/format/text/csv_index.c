#include "format/text/csv_index.h"

#include "base/thread/instruction_set.h"

size_t rk_csv_find_separators_scalar(const char *data, size_t n_bytes, char separator, char quote,
                                     uint32_t *out) {
    size_t n = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        out[n] = (uint32_t)i;
        n += data[i] == separator || data[i] == quote || data[i] == '\n' || data[i] == 0;
    }
    return n;
}

size_t rk_csv_find_separators(const char *data, size_t n_bytes, char separator, char quote, uint32_t *out) {
#ifdef __x86_64__
    switch (rk_cpu_isa()) {
        case RK_ISA_AVX512:
            return rk_csv_find_separators_avx512(data, n_bytes, separator, quote, out);
        case RK_ISA_AVX2:
            return rk_csv_find_separators_avx2(data, n_bytes, separator, quote, out);
        default:
            break;
    }
#endif
    return rk_csv_find_separators_scalar(data, n_bytes, separator, quote, out);
}
