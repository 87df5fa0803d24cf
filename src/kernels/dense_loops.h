/* The dense part's short loops over whole values: sums of columns, relu, sums and products. No two arrays
 * overlap. */
#ifndef RK_KERNELS_DENSE_LOOPS_H
#define RK_KERNELS_DENSE_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/real.h"

/* sums[c] += x[s, c], in the order of s; x is [n, width] */
void rk_column_sums(const rk_real *x, int64_t n, int64_t width, rk_real *sums);

/* y[i] = x[i] <= 0 ? 0 : x[i]: NaN of NaN
 * dx[i] = (add ? dx[i] : 0) + dy[i] * (x[i] > 0 ? 1 : 0) */
void rk_relu_forward(const rk_real *x, int64_t n, rk_real *y);
void rk_relu_backward(const rk_real *x, const rk_real *dy, int64_t n, bool add, rk_real *dx);
/* dy[i] = y[i] > 0 ? dy[i] : 0, of y = max(x, 0) */
void rk_relu_mask_gradient(const rk_real *y, int64_t n, rk_real *dy);

/* to[i] += from[i] */
void rk_values_add(const rk_real *from, int64_t n, rk_real *to);
/* to[i] = a[i] * b[i], or to[i] += a[i] * b[i] */
void rk_values_multiply(const rk_real *a, const rk_real *b, int64_t n, bool add, rk_real *to);
/* out[i] = a[i] * b[i] + c[i], two roundings */
void rk_values_multiply_add(const rk_real *a, const rk_real *b, const rk_real *c, int64_t n, rk_real *out);
/* out[c, r] = x[r, c]; rows of x are x_stride values apart, those of out out_stride */
void rk_values_transpose(const rk_real *x, int64_t rows, int64_t cols, int64_t x_stride, rk_real *out,
                         int64_t out_stride);
/* In RK_LANES lanes of doubles, which are added in their order. */
void rk_squares_sum(const float *values, int64_t n, double *sum);

#endif
