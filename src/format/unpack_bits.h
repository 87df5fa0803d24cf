/* Numbers of a few bits each, one right after another, as 64-bit integers: in two instruction sets that give
 * the same. */
#ifndef RK_FORMAT_UNPACK_BITS_H
#define RK_FORMAT_UNPACK_BITS_H

#include <stddef.h>
#include <stdint.h>

/* n numbers of bits 1 .. 56 in n_bytes = ceil(n * bits / 8), the first in the lowest bits of the first byte.
 *   for (i = 0; i < n; i++) out[i] = base + number i, modulo 2^64 */
typedef struct rk_packed_ints {
    const uint8_t *data;
    size_t n_bytes;
    int bits;
    uint64_t base;
} rk_packed_ints;

/* The least and the greatest number, without the base; {UINT64_MAX, 0} where there is none. */
typedef struct rk_packed_range {
    uint64_t least, greatest;
} rk_packed_range;

rk_packed_range rk_unpack_bits(const rk_packed_ints *packed, int64_t n, int64_t *out);

rk_packed_range rk_unpack_bits_scalar(const rk_packed_ints *packed, int64_t n, int64_t *out);
/* The first numbers, as many as are easy: *n_done. bits <= RK_UNPACK_AVX2_BITS. */
enum { RK_UNPACK_AVX2_BITS = 25 };
rk_packed_range rk_unpack_bits_avx2(const rk_packed_ints *packed, int64_t n, int64_t *out, int64_t *n_done);

#endif
