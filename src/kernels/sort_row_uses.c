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

/* A digit of the place. A whole byte is one load, where compilers would shift the use (rkb_internal.h refuses
 * machines whose low byte is not the first). */
static inline __attribute__((always_inline)) size_t digit_of_use(const rk_row_use *use, int shift, int bits) {
    if (bits == 8 && shift % 8 == 0) return ((const uint8_t *)use)[shift / 8];
    return *use >> shift & ((1u << bits) - 1);
}

/* `ways`, a constant, parts of the uses side by side, each with counters of its own: a counter is read right
 * after it was written where many uses are of one row, and with several the processor need not wait. Where
 * shift and bits are constants too, a byte takes half the instructions. */
static inline __attribute__((always_inline)) void sort_by_digit(const rk_row_use *from, rk_row_use *to,
                                                                int64_t n, const int shift, const int bits,
                                                                const int ways) {
    uint32_t starts[WAYS << DIGIT_BITS], at = 0; /* [ways, size] */
    const size_t size = (size_t)1 << bits;
    const int64_t part = n / ways;
    memset(starts, 0, (size_t)ways * size * sizeof *starts);
    for (int64_t i = 0; i < part; i++)
#pragma GCC unroll 4
        for (int w = 0; w < ways; w++)
            starts[(size_t)w * size + digit_of_use(&from[w * part + i], shift, bits)]++;
    uint32_t *last = starts + (size_t)(ways - 1) * size;
    for (int64_t i = ways * part; i < n; i++) last[digit_of_use(&from[i], shift, bits)]++;
    for (size_t d = 0; d < size; d++)
#pragma GCC unroll 4
        for (int w = 0; w < ways; w++) {
            uint32_t count = starts[(size_t)w * size + d];
            starts[(size_t)w * size + d] = at;
            at += count;
        }
    for (int64_t i = 0; i < part; i++)
#pragma GCC unroll 4
        for (int w = 0; w < ways; w++)
            to[starts[(size_t)w * size + digit_of_use(&from[w * part + i], shift, bits)]++] =
                from[w * part + i];
    for (int64_t i = ways * part; i < n; i++) to[last[digit_of_use(&from[i], shift, bits)]++] = from[i];
}

static void sort_row_uses_by_digit(const rk_row_use *from, rk_row_use *to, int64_t n, int shift, int bits) {
    if (n >> bits < WAYS) /* few uses: the counters themselves would take longer */
        sort_by_digit(from, to, n, shift, bits, 1);
    else if (bits == 8 && shift == 32)
        sort_by_digit(from, to, n, 32, 8, WAYS);
    else if (bits == 8 && shift == 40)
        sort_by_digit(from, to, n, 40, 8, WAYS);
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
