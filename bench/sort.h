/* The smallest radix sort that brings equal ids of each feature together, as an update of their rows has to:
 * low digits first, nothing checked. */
#ifndef RK_BENCH_SORT_H
#define RK_BENCH_SORT_H

#include "workload.h"

typedef struct sorter {
    const workload *w;
    int64_t longest;   /* ids of the feature that has most in a batch */
    uint64_t *buffers; /* [threads, 2, longest] */
} sorter;

sorter sorter_of(const workload *w);

/* Seconds of batch b, with the library's threads: a feature a task. */
double sort_batch(const sorter *s, int64_t b);

#endif
