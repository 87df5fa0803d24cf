#include "index/index_internal.h"

static void swap(rk_candidate *a, rk_candidate *b) {
    rk_candidate kept = *a;
    *a = *b;
    *b = kept;
}

/* Quickselect; the middle one is the pivot. */
void rk_candidates_select(rk_candidate *c, size_t n, size_t k) {
    size_t first = 0, end = n;
    while (end - first > 1 && k > first && k < end) {
        swap(&c[first], &c[first + (end - first) / 2]);
        rk_candidate pivot = c[first];
        size_t before = first;
        for (size_t i = first + 1; i < end; i++)
            if (rk_candidate_before(&c[i], &pivot)) swap(&c[++before], &c[i]);
        swap(&c[first], &c[before]);
        if (k <= before)
            end = before;
        else
            first = before + 1;
    }
}

/* Shell's; they are few. */
void rk_candidates_sort(rk_candidate *c, size_t n) {
    size_t gap = 1;
    while (gap < n / 3) gap = 3 * gap + 1;
    for (; gap; gap /= 3)
        for (size_t i = gap; i < n; i++) {
            rk_candidate moved = c[i];
            size_t j = i;
            for (; j >= gap && rk_candidate_before(&moved, &c[j - gap]); j -= gap) c[j] = c[j - gap];
            c[j] = moved;
        }
}
