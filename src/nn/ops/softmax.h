/* Softmax of one row, for the operations that have it in them. */
#ifndef RK_NN_OPS_SOFTMAX_H
#define RK_NN_OPS_SOFTMAX_H

#include <math.h>
#include <stdint.h>

#include "kernels/real.h"

/* y = exp(x - max) / sum; y may be x. */
static inline void rk_softmax_row(const rk_real *x, rk_real *y, int32_t cols) {
    rk_real most = x[0], sum = 0;
    for (int32_t c = 1; c < cols; c++) most = x[c] > most ? x[c] : most;
    for (int32_t c = 0; c < cols; c++) sum += y[c] = (rk_real)exp((double)(x[c] - most));
    for (int32_t c = 0; c < cols; c++) y[c] /= sum;
}

/* dx += y (dy - y . dy) */
static inline void rk_softmax_row_backward(const rk_real *y, const rk_real *dy, rk_real *dx, int32_t cols) {
    rk_real dot = 0;
    for (int32_t c = 0; c < cols; c++) dot += y[c] * dy[c];
    for (int32_t c = 0; c < cols; c++) dx[c] += y[c] * (dy[c] - dot);
}

#endif
