/* Products of a matrix m [rows, cols] with a few vectors, p [k] of `rows` and q [k] of `cols` values: what a
 * low-rank approximation m ~ sum over k of p[k] q[k]^T is made and used by. */
#ifndef RK_KERNELS_LOW_RANK_H
#define RK_KERNELS_LOW_RANK_H

#include <stdint.h>

#include "kernels/real.h"

/* Vector k of p and q begins at k * p_stride and k * q_stride; rows of m are m_stride apart. No two overlap.
 *
 *     times_columns:  p[k][i] = sum over j of m[i, j] * q[k][j], in lanes
 *     times_rows:     q[k][j] = sum over i of m[i, j] * p[k][i], in the order of i
 *     add:            out[i, j] = m[i, j] + sum over k of scale * p[k][i] * q[k][j], in the order of k; out,
 *                     which may be m, has m's strides */
typedef struct rk_low_rank_args {
    int64_t rows, cols;
    int32_t n_vectors;
    const rk_real *m;
    int64_t m_stride;
    rk_real *p, *q;
    int64_t p_stride, q_stride;
    rk_real scale;
    rk_real *out;
} rk_low_rank_args;
void rk_low_rank_times_columns(const rk_low_rank_args *args);
void rk_low_rank_times_rows(const rk_low_rank_args *args);
void rk_low_rank_add(const rk_low_rank_args *args);

#endif
