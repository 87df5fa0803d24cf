/* The smallest loop that reads a workload's rows: fixed pooling, ids as row addresses, everything known
 * beforehand and nothing checked. What lookups are held against; and, over gradients in place of tables, the
 * sums of an update. */
#ifndef RK_BENCH_GATHER_H
#define RK_BENCH_GATHER_H

#include <stdbool.h>

#include "workload.h"

typedef struct gather {
    const workload *w;
    const float **tables; /* [n_features]: each [n_rows, dim], */
    int64_t stride;       /* its rows so many values apart; 0: dim */
    float *out;           /* [n, width] */
    int64_t width;
    int ahead; /* how many rows ahead are prefetched, */
    bool near; /* to the first cache or to the second */
} gather;

/* Tries several prefetch distances, to either cache, on batch 0 and keeps the best. Dims: 16, 32, 64 and
 * 128. */
void gather_tune(gather *g);

/* The same bags, of the samples whose gradients an update adds, use by use in the order of the rows; kept for
 * good. */
workload gradients_by_row(const workload *w);

/* Seconds of batch b, with the library's threads. */
double gather_batch(const gather *g, int64_t b);

#endif
