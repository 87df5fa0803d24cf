/* A loop over 64 bytes at a time, and bits into places: what the vector versions share. `hits(at, separator,
 * quote)` is theirs. */
#ifndef RK_FORMAT_TEXT_CSV_INDEX_BITS_H
#define RK_FORMAT_TEXT_CSV_INDEX_BITS_H

#include <string.h>

#include "format/text/csv_index.h"

/* Eight places are written whether they are there or not: most windows have fewer, and a loop over each would
 * be mispredicted. */
static inline size_t write_set_bit_positions(uint64_t mask, uint32_t base, uint32_t *out) {
    size_t n = (size_t)__builtin_popcountll(mask);
    for (size_t done = 0; done < n; done += 8)
        for (size_t i = 0; i < 8; i++) {
            out[done + i] = base + (uint32_t)__builtin_ctzll(mask | (uint64_t)1 << 63);
            mask &= mask - 1;
        }
    return n;
}

#define RK_CSV_INDEX_LOOP(hits)                                                                   \
    size_t n = 0, i = 0;                                                                          \
    for (; i + 64 <= n_bytes; i += 64)                                                            \
        n += write_set_bit_positions(hits(data + i, separator, quote), (uint32_t)i, out + n);     \
    if (i < n_bytes) {                                                                            \
        char rest[64] = {0};                                                                      \
        memcpy(rest, data + i, n_bytes - i);                                                      \
        uint64_t there = ((uint64_t)1 << (n_bytes - i)) - 1;                                      \
        n += write_set_bit_positions(hits(rest, separator, quote) & there, (uint32_t)i, out + n); \
    }                                                                                             \
    return n

#endif
