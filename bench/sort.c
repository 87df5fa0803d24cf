#include "sort.h"

#include <stdlib.h>
#include <string.h>

#include "base/integers.h"
#include "base/thread/parallel.h"

enum { MOST_BITS = 11, MOST_DIGITS = 4 };

sorter sorter_of(const workload *w) {
    sorter s = {.w = w};
    for (int64_t f = 0; f < w->n_features; f++) {
        int64_t n = w->n * w->features[f].hotness;
        if (n > s.longest) s.longest = n;
        if (n >> 32 || w->features[f].n_rows >> 32) die("the sort knows ids and uses below 2^32 alone");
    }
    size_t n_bytes = (size_t)rk_parallel_threads() * 2 * (size_t)s.longest * sizeof *s.buffers;
    s.buffers = (uint64_t *)(void *)huge_floats((int64_t)(n_bytes / sizeof(float)), 0);
    return s;
}

typedef struct sort_task {
    const sorter *s;
    int64_t batch;
} sort_task;

static void sort_feature(void *context, size_t f, int thread) {
    const sort_task *t = context;
    const workload_feature *from = &t->s->w->features[f];
    const int64_t n = t->s->w->n * from->hotness, *ids = from->ids + t->batch * n;
    const int row_bits = rk_bit_width((uint64_t)from->n_rows),
              n_digits = (row_bits + MOST_BITS - 1) / MOST_BITS, bits = (row_bits + n_digits - 1) / n_digits;
    const uint64_t mask = (1u << bits) - 1;
    uint32_t starts[MOST_DIGITS][1 << MOST_BITS];
    memset(starts, 0, sizeof starts);
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < n_digits; d++) starts[d][(uint64_t)ids[i] >> d * bits & mask]++;
    for (int d = 0; d < n_digits; d++)
        for (uint32_t k = 0, at = 0; k <= mask; k++) {
            uint32_t count = starts[d][k];
            starts[d][k] = at;
            at += count;
        }
    uint64_t *sorted = t->s->buffers + (int64_t)thread * 2 * t->s->longest, *next = sorted + t->s->longest;
    for (int64_t i = 0; i < n; i++)
        sorted[starts[0][(uint64_t)ids[i] & mask]++] = (uint64_t)ids[i] << 32 | (uint64_t)i;
    for (int d = 1; d < n_digits; d++) {
        for (int64_t i = 0; i < n; i++) next[starts[d][sorted[i] >> (32 + d * bits) & mask]++] = sorted[i];
        uint64_t *swap = sorted;
        sorted = next;
        next = swap;
    }
}

double sort_batch(const sorter *s, int64_t b) {
    sort_task task = {s, b};
    double begin = seconds_now();
    rk_parallel_for((size_t)s->w->n_features, sort_feature, &task);
    return seconds_now() - begin;
}
