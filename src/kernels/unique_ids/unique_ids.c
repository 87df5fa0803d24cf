/* A stable radix sort of (id, position) by as many bytes as the largest id has, then the runs. One version: it moves
 * data and computes nothing. */
#include <string.h>

#include "kernels/kernels.h"

typedef struct pair {
    int64_t id;
    uint32_t position;
} pair;

size_t rk_unique_ids_scratch(size_t n) {
    return 2 * n * sizeof(pair);
}

static void sort_by_byte(const pair *from, pair *to, size_t n, int shift) {
    size_t starts[256] = {0};
    for (size_t i = 0; i < n; i++) starts[(uint64_t)from[i].id >> shift & 255]++;
    size_t at = 0;
    for (int b = 0; b < 256; b++) {
        size_t count = starts[b];
        starts[b] = at;
        at += count;
    }
    for (size_t i = 0; i < n; i++) to[starts[(uint64_t)from[i].id >> shift & 255]++] = from[i];
}

size_t rk_unique_ids(const int64_t *ids, size_t n, int64_t max_id, uint32_t *order, int64_t *unique, uint32_t *starts, void *scratch) {
    pair *a = scratch, *b = a + n;
    for (size_t i = 0; i < n; i++) a[i] = (pair){ids[i], (uint32_t)i};
    for (int shift = 0; shift < 64 && (uint64_t)max_id >> shift; shift += 8) {
        sort_by_byte(a, b, n, shift);
        pair *swap = a;
        a = b;
        b = swap;
    }
    size_t n_unique = 0;
    for (size_t i = 0; i < n; i++) {
        order[i] = a[i].position;
        if (i && a[i].id == a[i - 1].id) continue;
        unique[n_unique] = a[i].id;
        starts[n_unique++] = (uint32_t)i;
    }
    starts[n_unique] = (uint32_t)n;
    return n_unique;
}
