/* The operations that embeddings spend their time in. Each has a folder: scalar.c (the reference, permanent), avx2.c,
 * avx512.c, and list.h, which prototypes, dispatch, tests and benchmarks all read. Kernels neither allocate, log nor fail:
 * callers validate. They are single-threaded: callers cut the work. Which one runs: base/cpu.h (RK_ISA). */
#ifndef RK_KERNELS_KERNELS_H
#define RK_KERNELS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include <reckon/table.h>

#include "kernels/real.h"
#include "kernels/row_update/row_update.h"

/* Rows of a table in memory. */
typedef struct rk_rows {
    void *data;      /* [n_rows, dim] of dtype, rows dim * rk_dtype_bytes(dtype) apart */
    rk_dtype dtype;
    int32_t dim;
} rk_rows;

/* Bags [first, last) of a CSR batch, into f32:
 *
 *     for b in first .. last-1:
 *         out[b * stride : +dim] = 0
 *         for i in offsets[b] .. offsets[b+1]-1:
 *             out[b * stride : +dim] += (coefficients ? coefficients[i] : 1) * rows[ids[i]]
 *         if scales: out[b * stride : +dim] *= scales[b]
 *
 * Rows some way ahead are prefetched. ids are valid rows. */
typedef struct rk_bag_forward_args {
    rk_rows rows;
    const int64_t *offsets;     /* [n_bags+1] */
    const int64_t *ids;         /* [offsets[n_bags]] */
    const float *coefficients;  /* [offsets[n_bags]] or NULL */
    const float *scales;        /* [n_bags] or NULL */
    float *out;
    int64_t stride;
    int64_t first, last;
} rk_bag_forward_args;
void rk_bag_forward(const rk_bag_forward_args *args);

/* One place where a row was used: which gradient it takes and how much of it. */
typedef struct rk_occurrence {
    const float *gradient; /* [dim] */
    float coefficient;
} rk_occurrence;

/*     out[0:dim] = 0;  for k in 0 .. n-1: out[0:dim] += occurrences[k].coefficient * occurrences[k].gradient[0:dim]     */
void rk_grad_sum(const rk_occurrence *occurrences, int64_t n, int32_t dim, float *out);

/* f32 copies of a row, and back. Storing to bf16 and f16 rounds stochastically with bits drawn from (seed, counter). */
void rk_row_load(const rk_rows *rows, int64_t row, float *out);
void rk_row_store(const rk_rows *rows, int64_t row, const float *values, uint64_t seed, uint64_t counter);

/* A stable sort by id, then the runs of equal ids:
 *
 *     order = positions 0..n-1 sorted by (ids[position], position)
 *     unique[u], starts[u]: the u-th distinct id and where its run begins in order; starts[n_unique] = n
 *
 * Returns n_unique. scratch: rk_unique_ids_scratch(n) bytes. max_id bounds the ids (fewer radix passes). n < 2^31. */
size_t rk_unique_ids_scratch(size_t n);
size_t rk_unique_ids(const int64_t *ids, size_t n, int64_t max_id, uint32_t *order, int64_t *unique, uint32_t *starts, void *scratch);

/* Dot interaction of n samples, x [n, n_vectors, dim]:
 *     out[s, p] = x[s, i] . x[s, j]   for the pairs i > j, in the order (1,0) (2,0) (2,1) (3,0) ...
 * backward: dx[s, i] += dout[s, p] * x[s, j];  dx[s, j] += dout[s, p] * x[s, i] */
void rk_interaction_forward(const rk_real *x, int64_t n, int32_t n_vectors, int32_t dim, rk_real *out);
void rk_interaction_backward(const rk_real *x, const rk_real *dout, int64_t n, int32_t n_vectors, int32_t dim, rk_real *dx);

#endif
