/* The dense part's loops over whole values: sums of columns, batch normalization, relu, sums and products.
 * x, y, dy and dx are [n, width], all else [width]; no two overlap. */
#ifndef RK_KERNELS_BATCH_NORM_H
#define RK_KERNELS_BATCH_NORM_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/real.h"

/* sums[c] += x[s, c], in the order of s */
void rk_column_sums(const rk_real *x, int64_t n, int64_t width, rk_real *sums);

/* With hat = (x[s, c] - mean[c]) * scale[c] and y = gamma[c] * hat + beta[c], each sum in the order of s:
 *
 *     squares:        out[c] += (x[s, c] - mean[c])^2
 *     forward:        out[s, c] = y, if relu max(y, 0), and if there is kept dropout of that
 *     gradient_sums:  out[c] += d * hat;  out[width + c] += d, where d is dy[s, c] behind dropout and relu
 *     backward:       dx = gamma[c] * scale[c] * (d - inverse * (sums[c] + hat * dots[c]))
 *                     out[s, c] = add ? out[s, c] + dx : 0 + dx
 *
 * dropout and relu as rk_dropout_mask, rk_dropout_apply_mask, rk_relu_forward and rk_relu_backward have them.
 */
typedef struct rk_batch_norm_args {
    int64_t n, width;
    const rk_real *x, *dy;
    const rk_real *mean, *scale, *gamma, *beta;
    const rk_real *dots, *sums; /* of gradient_sums over the batch */
    rk_real inverse;            /* 1 / samples of the batch */
    bool add;
    rk_real *out;
    bool relu;           /* follows, */
    const uint8_t *kept; /* [n, width] or NULL: and behind relu dropout, */
    rk_real keep;        /* whose factor this is */
} rk_batch_norm_args;
void rk_batch_norm_squares(const rk_batch_norm_args *args);
void rk_batch_norm_forward(const rk_batch_norm_args *args);
void rk_batch_norm_gradient_sums(const rk_batch_norm_args *args);
void rk_batch_norm_backward(const rk_batch_norm_args *args);

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
/* In RK_LANES lanes of doubles, which are added in their order. */
void rk_squares_sum(const float *values, int64_t n, double *sum);

#endif
