#include "metrics/sort_by_prediction.h"

#include <string.h>

enum { DIGIT_BITS = 11, N_DIGITS = 3, N_BUCKETS = 1 << DIGIT_BITS };

static size_t digit_of_key(uint32_t key, int d) {
    return key >> (d * DIGIT_BITS) & (N_BUCKETS - 1);
}

/* Stable: places from[n] into to[n] by digit d. */
static void scatter_by_digit(const rk_rank_item *from, rk_rank_item *to, size_t n, int d,
                             const size_t *counts) {
    size_t places[N_BUCKETS], place = 0;
    for (size_t b = 0; b < N_BUCKETS; b++) {
        places[b] = place;
        place += counts[b];
    }
    for (size_t i = 0; i < n; i++) to[places[digit_of_key(from[i].key, d)]++] = from[i];
}

/* Radix sort, lowest digit first; a digit that all keys share is passed over. */
void rk_sort_by_prediction(rk_rank_item *items, rk_rank_item *scratch, size_t n) {
    size_t counts[N_DIGITS][N_BUCKETS] = {{0}};
    for (size_t i = 0; i < n; i++)
        for (int d = 0; d < N_DIGITS; d++) counts[d][digit_of_key(items[i].key, d)]++;
    rk_rank_item *from = items, *to = scratch;
    for (int d = 0; d < N_DIGITS && n; d++) {
        if (counts[d][digit_of_key(from[0].key, d)] == n) continue;
        scatter_by_digit(from, to, n, d, counts[d]);
        rk_rank_item *other = from;
        from = to;
        to = other;
    }
    if (from != items) memcpy(items, from, n * sizeof *items);
}
