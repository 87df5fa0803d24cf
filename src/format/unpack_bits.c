#include "format/unpack_bits.h"

#include <string.h>

#include "base/thread/instruction_set.h"
#include "base/integers.h"

static inline void store_unpacked_number(uint64_t number, uint64_t base, rk_packed_range *range,
                                         int64_t *out) {
    range->least = number < range->least ? number : range->least;
    range->greatest = number > range->greatest ? number : range->greatest;
    *out = (int64_t)(base + number);
}

/* A word is read where a number begins; the last ones out of a copy, since no word ends there. */
rk_packed_range rk_unpack_bits_scalar(const rk_packed_ints *packed, int64_t n, int64_t *out) {
    const uint8_t *data = packed->data;
    const size_t n_bytes = packed->n_bytes;
    const uint64_t width = (uint64_t)packed->bits, mask = ((uint64_t)1 << width) - 1;
    rk_packed_range range = {UINT64_MAX, 0};
    uint64_t at = 0;
    int64_t n_whole = n_bytes < 8 ? 0 : (int64_t)((n_bytes - 8) * 8 / width) + 1, i = 0;
    for (; i < n_whole && i < n; i++, at += width)
        store_unpacked_number(rk_load_u64(data + at / 8) >> at % 8 & mask, packed->base, &range, &out[i]);
    uint8_t rest[32] = {0};
    uint64_t first = at / 8;
    if (i < n) memcpy(rest, data + first, n_bytes - first);
    for (; i < n; i++, at += width)
        store_unpacked_number(rk_load_u64(rest + (at / 8 - first)) >> at % 8 & mask, packed->base, &range,
                              &out[i]);
    return range;
}

rk_packed_range rk_unpack_bits(const rk_packed_ints *packed, int64_t n, int64_t *out) {
    if (n == 0) return (rk_packed_range){UINT64_MAX, 0}; /* out may be NULL */
#ifdef __x86_64__
    if (rk_cpu_isa() != RK_ISA_SCALAR && packed->bits <= RK_UNPACK_AVX2_BITS) {
        int64_t n_done;
        rk_packed_range range = rk_unpack_bits_avx2(packed, n, out, &n_done);
        if (n_done == n) return range; /* there may be no data at all */
        size_t skipped = (size_t)n_done / 8 * (size_t)packed->bits;
        const rk_packed_ints rest = {packed->data + skipped, packed->n_bytes - skipped, packed->bits,
                                     packed->base};
        rk_packed_range last = rk_unpack_bits_scalar(&rest, n - n_done, out + n_done);
        return (rk_packed_range){last.least < range.least ? last.least : range.least,
                                 last.greatest > range.greatest ? last.greatest : range.greatest};
    }
#endif
    return rk_unpack_bits_scalar(packed, n, out);
}
