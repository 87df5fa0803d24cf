/* Batch normalization. x and dy are [n, width], all else [width]; no two overlap. */
#ifndef RK_KERNELS_BATCH_NORM_H
#define RK_KERNELS_BATCH_NORM_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/real.h"

/* With hat = (x[s, c] - mean[c]) * scale[c] and y = gamma[c] * hat + beta[c], each sum in the order of s:
 *
 *     squares:        out[c] += (x[s, c] - mean[c])^2
 *     forward:        out[s, c] = y, if relu max(y, 0), and if there is kept dropout of that
 *     gradient_sums:  out[c] += d * hat;  out[width + c] += d, where d is dy[s, c] behind dropout and relu
 *     backward:       dx = gamma[c] * scale[c] * (d - inverse * (sums[c] + hat * dots[c]))
 *                     out[s, c] = add ? out[s, c] + dx : 0 + dx
 *
 * dropout and relu as rk_dropout_mask, rk_dropout_apply_mask, rk_relu_forward and rk_relu_mask_gradient have
 * them.
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

#endif
