/* The bodies of kernels/dense_loops.h, compiled once for each instruction set. */
#include "kernels/inline/lane_sum.h"
#include "kernels/kernel_list.h"

/* Sums over samples take ROWS of them at a time, one after the other into each sum, which then stays in a
 * register for as long. */
enum { ROWS = 4 };

static inline __attribute__((always_inline)) void add_rows_to_sums(const rk_real *x, int rows, int64_t width,
                                                                   rk_real *restrict sums) {
    for (int64_t c = 0; c < width; c++) {
        rk_real sum = sums[c];
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) sum += x[r * width + c];
        sums[c] = sum;
    }
}

void RK_KERNEL_NAME(rk_column_sums)(const rk_real *x, int64_t n, int64_t width, rk_real *restrict sums) {
    for (; n >= ROWS; n -= ROWS, x += ROWS * width) add_rows_to_sums(x, ROWS, width, sums);
    for (; n > 0; n--, x += width) add_rows_to_sums(x, 1, width, sums);
}

void RK_KERNEL_NAME(rk_relu_forward)(const rk_real *x, int64_t n, rk_real *restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] <= 0 ? 0 : x[i];
}

void RK_KERNEL_NAME(rk_relu_backward)(const rk_real *x, const rk_real *dy, int64_t n, bool add,
                                      rk_real *restrict dx) {
    for (int64_t i = 0; i < n; i++) dx[i] = (add ? dx[i] : 0) + dy[i] * (x[i] > 0 ? (rk_real)1 : (rk_real)0);
}

void RK_KERNEL_NAME(rk_relu_mask_gradient)(const rk_real *y, int64_t n, rk_real *restrict dy) {
    for (int64_t i = 0; i < n; i++) dy[i] = y[i] > 0 ? dy[i] : 0;
}

void RK_KERNEL_NAME(rk_values_add)(const rk_real *from, int64_t n, rk_real *restrict to) {
    for (int64_t i = 0; i < n; i++) to[i] += from[i];
}

void RK_KERNEL_NAME(rk_values_multiply)(const rk_real *a, const rk_real *b, int64_t n, bool add,
                                        rk_real *restrict to) {
    if (add)
        for (int64_t i = 0; i < n; i++) to[i] += a[i] * b[i];
    else
        for (int64_t i = 0; i < n; i++) to[i] = a[i] * b[i];
}

void RK_KERNEL_NAME(rk_values_multiply_add)(const rk_real *a, const rk_real *b, const rk_real *c, int64_t n,
                                            rk_real *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] = a[i] * b[i] + c[i];
}

void RK_KERNEL_NAME(rk_squares_sum)(const float *values, int64_t n, double *sum) {
    double lanes[RK_LANES] = {0}, all = 0;
    int64_t i = 0;
    for (; i + RK_LANES <= n; i += RK_LANES)
        for (int l = 0; l < RK_LANES; l++) lanes[l] += (double)values[i + l] * values[i + l];
    for (int l = 0; i < n; i++, l++) lanes[l] += (double)values[i] * values[i];
    for (int l = 0; l < RK_LANES; l++) all += lanes[l];
    *sum = all;
}
