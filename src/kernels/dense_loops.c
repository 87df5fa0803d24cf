/* The bodies of kernels/dense_loops.h, compiled once for each instruction set. */
#include <string.h>

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

enum { BLOCK = 8 };
typedef rk_real eight __attribute__((vector_size(BLOCK * sizeof(rk_real))));

/* BLOCK rows by BLOCK columns: numbers change places by ones, then by twos, then by fours. */
static inline __attribute__((always_inline)) void transpose_block(const rk_real *x, int64_t x_stride,
                                                                  rk_real *out, int64_t out_stride) {
    eight a[BLOCK], b[BLOCK];
#pragma GCC unroll 8
    for (int r = 0; r < BLOCK; r++) memcpy(&a[r], x + r * x_stride, sizeof a[r]);
#pragma GCC unroll 4
    for (int r = 0; r < BLOCK; r += 2) {
        b[r] = __builtin_shufflevector(a[r], a[r + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        b[r + 1] = __builtin_shufflevector(a[r], a[r + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
#pragma GCC unroll 8
    for (int r = 0; r < BLOCK; r++) {
        if (r & 2) continue;
        a[r] = __builtin_shufflevector(b[r], b[r + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        a[r + 2] = __builtin_shufflevector(b[r], b[r + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
#pragma GCC unroll 4
    for (int r = 0; r < BLOCK / 2; r++) {
        b[r] = __builtin_shufflevector(a[r], a[r + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        b[r + 4] = __builtin_shufflevector(a[r], a[r + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
#pragma GCC unroll 8
    for (int r = 0; r < BLOCK; r++) memcpy(out + r * out_stride, &b[r], sizeof b[r]);
}

void RK_KERNEL_NAME(rk_values_transpose)(const rk_real *x, int64_t rows, int64_t cols, int64_t x_stride,
                                         rk_real *out, int64_t out_stride) {
    const int64_t whole_rows = rows / BLOCK * BLOCK, whole_cols = cols / BLOCK * BLOCK;
    for (int64_t c = 0; c < whole_cols; c += BLOCK) /* along the rows that are written */
        for (int64_t r = 0; r < whole_rows; r += BLOCK)
            transpose_block(x + r * x_stride + c, x_stride, out + c * out_stride + r, out_stride);
    for (int64_t c = 0; c < cols; c++)
        for (int64_t r = c < whole_cols ? whole_rows : 0; r < rows; r++)
            out[c * out_stride + r] = x[r * x_stride + c];
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
