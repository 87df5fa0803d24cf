/* The bodies of kernels/batch_norm.h, compiled once for each instruction set. */
#include "kernels/inline/lane_sum.h"
#include "kernels/kernel_list.h"

void RK_KERNEL_NAME(rk_column_sums)(const rk_real *x, int64_t n, int64_t width, rk_real *restrict sums) {
    for (int64_t s = 0; s < n; s++, x += width)
        for (int64_t c = 0; c < width; c++) sums[c] += x[c];
}

void RK_KERNEL_NAME(rk_batch_norm_squares)(const rk_batch_norm_args *args) {
    const rk_batch_norm_args a = *args; /* nobody else has it: no store can change it */
    const rk_real *x = a.x;
    rk_real *restrict out = a.out;
    for (int64_t s = 0; s < a.n; s++, x += a.width)
        for (int64_t c = 0; c < a.width; c++) out[c] += (x[c] - a.mean[c]) * (x[c] - a.mean[c]);
}

void RK_KERNEL_NAME(rk_batch_norm_forward)(const rk_batch_norm_args *args) {
    const rk_batch_norm_args a = *args;
    const rk_real *x = a.x;
    rk_real *restrict out = a.out;
    for (int64_t s = 0; s < a.n; s++, x += a.width, out += a.width)
        for (int64_t c = 0; c < a.width; c++)
            out[c] = a.gamma[c] * ((x[c] - a.mean[c]) * a.scale[c]) + a.beta[c];
}

void RK_KERNEL_NAME(rk_batch_norm_gradient_sums)(const rk_batch_norm_args *args) {
    const rk_batch_norm_args a = *args;
    const rk_real *x = a.x, *dy = a.dy;
    rk_real *restrict dots = a.out, *restrict sums = a.out + a.width;
    for (int64_t s = 0; s < a.n; s++, x += a.width, dy += a.width)
        for (int64_t c = 0; c < a.width; c++) {
            dots[c] += dy[c] * ((x[c] - a.mean[c]) * a.scale[c]);
            sums[c] += dy[c];
        }
}

void RK_KERNEL_NAME(rk_batch_norm_backward)(const rk_batch_norm_args *args) {
    const rk_batch_norm_args a = *args;
    const rk_real *x = a.x, *dy = a.dy;
    rk_real *restrict out = a.out;
    for (int64_t s = 0; s < a.n; s++, x += a.width, dy += a.width, out += a.width)
        for (int64_t c = 0; c < a.width; c++) {
            rk_real hat = (x[c] - a.mean[c]) * a.scale[c];
            rk_real dx = a.gamma[c] * a.scale[c] * (dy[c] - a.inverse * (a.sums[c] + hat * a.dots[c]));
            out[c] = (a.add ? out[c] : 0) + dx;
        }
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
