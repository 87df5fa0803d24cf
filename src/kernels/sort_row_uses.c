/* A radix sort, low digits first; few uses are inserted one by one. One version: it moves data and computes
 * nothing. */
#include "kernels/sort_row_uses.h"

#include <string.h>

enum { FEW = 24, WAYS = 4, LEAST_DIGIT_BITS = 6, DIGIT_BITS = 12 };

static void insertion_sort_row_uses(rk_row_use *uses, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        rk_row_use use = uses[i];
        int64_t at = i;
        for (; at > 0 && rk_row_use_place(uses[at - 1]) > rk_row_use_place(use); at--)
            uses[at] = uses[at - 1];
        uses[at] = use;
    }
}

/* `ways`, a constant, parts of the uses side by side, each with counters of its own: a counter is read right
 * after it was written where many uses are of one row, and with several the processor need not wait. */
static inline __attribute__((always_inline)) void sort_by_digit(const rk_row_use *from, rk_row_use *to,
                                                                int64_t n, int shift, int bits,
                                                                const int ways) {
    uint32_t starts[WAYS][1 << DIGIT_BITS], mask = (1u << bits) - 1, at = 0;
    const int64_t part = n / ways;
    for (int w = 0; w < ways; w++) memset(starts[w], 0, (mask + 1) * sizeof **starts);
    for (int64_t i = 0; i < part; i++)
#pragma GCC unroll 4
        for (int w = 0; w < ways; w++) starts[w][from[w * part + i] >> shift & mask]++;
    for (int64_t i = ways * part; i < n; i++) starts[ways - 1][from[i] >> shift & mask]++;
    for (uint32_t d = 0; d <= mask; d++)
#pragma GCC unroll 4
        for (int w = 0; w < ways; w++) {
            uint32_t count = starts[w][d];
            starts[w][d] = at;
            at += count;
        }
    for (int64_t i = 0; i < part; i++)
#pragma GCC unroll 4
        for (int w = 0; w < ways; w++)
            to[starts[w][from[w * part + i] >> shift & mask]++] = from[w * part + i];
    for (int64_t i = ways * part; i < n; i++) to[starts[ways - 1][from[i] >> shift & mask]++] = from[i];
}

/* One load, where compilers would shift the whole use. */
static inline size_t byte_of_place(const rk_row_use *use, int byte) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return ((const uint8_t *)use)[4 + byte];
#else
    return ((const uint8_t *)use)[3 - byte];
#endif
}

/* The same by a byte of the place, a constant: half the instructions, and counters that lie close. */
static inline __attribute__((always_inline)) void sort_by_byte(const rk_row_use *from, rk_row_use *to,
                                                               int64_t n, const int byte) {
    uint32_t starts[WAYS][256] = {{0}}, at = 0;
    const int64_t part = n / WAYS;
    for (int64_t i = 0; i < part; i++)
#pragma GCC unroll 4
        for (int w = 0; w < WAYS; w++) starts[w][byte_of_place(&from[w * part + i], byte)]++;
    for (int64_t i = WAYS * part; i < n; i++) starts[WAYS - 1][byte_of_place(&from[i], byte)]++;
    for (int d = 0; d < 256; d++)
#pragma GCC unroll 4
        for (int w = 0; w < WAYS; w++) {
            uint32_t count = starts[w][d];
            starts[w][d] = at;
            at += count;
        }
    for (int64_t i = 0; i < part; i++)
#pragma GCC unroll 4
        for (int w = 0; w < WAYS; w++)
            to[starts[w][byte_of_place(&from[w * part + i], byte)]++] = from[w * part + i];
    for (int64_t i = WAYS * part; i < n; i++) to[starts[WAYS - 1][byte_of_place(&from[i], byte)]++] = from[i];
}

static void sort_row_uses_by_digit(const rk_row_use *from, rk_row_use *to, int64_t n, int shift, int bits) {
    if (n >> bits < WAYS) /* few uses: the counters themselves would take longer */
        sort_by_digit(from, to, n, shift, bits, 1);
    else if (bits == 8 && shift == 32)
        sort_by_byte(from, to, n, 0);
    else if (bits == 8 && shift == 40)
        sort_by_byte(from, to, n, 1);
    else
        sort_by_digit(from, to, n, shift, bits, WAYS);
}

void rk_sort_row_uses(rk_row_use *uses, int64_t n, int place_bits, rk_row_use *scratch) {
    if (n <= FEW) {
        insertion_sort_row_uses(uses, n);
        return;
    }
    int most_bits = LEAST_DIGIT_BITS;
    while (most_bits < DIGIT_BITS && n >> most_bits > 0) most_bits++;
    int n_digits = (place_bits + most_bits - 1) / most_bits,
        bits = n_digits ? (place_bits + n_digits - 1) / n_digits : 0;
    if (n_digits <= 2 && bits == 7) bits = 8; /* as bytes are faster */
    rk_row_use *from = uses, *to = scratch;
    for (int d = 0; d < n_digits; d++) {
        sort_row_uses_by_digit(from, to, n, 32 + d * bits, bits);
        rk_row_use *swap = from;
        from = to;
        to = swap;
    }
    if (from != uses) memcpy(uses, from, (size_t)n * sizeof *uses);
}
