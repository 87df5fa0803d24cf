/* A radix sort, low digits first; few uses are inserted one by one. One version: it moves data and computes
 * nothing. */
#include "kernels/sort_row_uses.h"

#include <string.h>

enum { FEW = 24, LEAST_DIGIT_BITS = 6, DIGIT_BITS = 12 };

static void insertion_sort_row_uses(rk_row_use *uses, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        rk_row_use use = uses[i];
        int64_t at = i;
        for (; at > 0 && rk_row_use_place(uses[at - 1]) > rk_row_use_place(use); at--)
            uses[at] = uses[at - 1];
        uses[at] = use;
    }
}

static void sort_row_uses_by_digit(const rk_row_use *from, rk_row_use *to, int64_t n, int shift, int bits) {
    uint32_t starts[1 << DIGIT_BITS], mask = (1u << bits) - 1, at = 0;
    memset(starts, 0, (mask + 1) * sizeof *starts);
    for (int64_t i = 0; i < n; i++) starts[from[i] >> shift & mask]++;
    for (uint32_t d = 0; d <= mask; d++) {
        uint32_t count = starts[d];
        starts[d] = at;
        at += count;
    }
    for (int64_t i = 0; i < n; i++) to[starts[from[i] >> shift & mask]++] = from[i];
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
    rk_row_use *from = uses, *to = scratch;
    for (int d = 0; d < n_digits; d++) {
        sort_row_uses_by_digit(from, to, n, 32 + d * bits, bits);
        rk_row_use *swap = from;
        from = to;
        to = swap;
    }
    if (from != uses) memcpy(uses, from, (size_t)n * sizeof *uses);
}
