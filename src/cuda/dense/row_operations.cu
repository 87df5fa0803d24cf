/* Moving and combining rows: columns into and out of wider arrays, transposes, sums and products by row. */
#include "cuda/platform.h"

#include "cuda/dense/dense_kernel_helpers.h"

__global__ static void copy_columns_kernel(int64_t n, int64_t cols, const float *from, int64_t from_stride,
                                           float *to, int64_t to_stride, bool overwrite) {
    int64_t i = rk_thread_number();
    if (i >= n) return;
    int64_t r = i / cols, c = i - r * cols;
    rk_store_gradient(&to[r * to_stride + c], from[r * from_stride + c], overwrite);
}

__global__ static void copy_float4_columns_kernel(int64_t n, int64_t quads, const float4 *from,
                                                  int64_t from_stride, float4 *to, int64_t to_stride,
                                                  bool overwrite) {
    int64_t i = rk_thread_number();
    if (i >= n) return;
    int64_t r = i / quads, c = i - r * quads;
    float4 v = from[r * from_stride + c], *at = &to[r * to_stride + c];
    if (!overwrite) v = make_float4(at->x + v.x, at->y + v.y, at->z + v.z, at->w + v.w);
    *at = v;
}

/* to[r * to_stride + c] += from[r * from_stride + c], c < cols */
void rk_cuda_copy_columns(rk_stream *stream, int64_t rows, int64_t cols, const float *from,
                          int64_t from_stride, float *to, int64_t to_stride, bool overwrite) {
    bool quads = cols % 4 == 0 && from_stride % 4 == 0 && to_stride % 4 == 0 && (uintptr_t)from % 16 == 0 &&
                 (uintptr_t)to % 16 == 0;
    int64_t n = rows * cols;
    if (quads)
        RK_LAUNCH(copy_float4_columns_kernel, rk_grid_blocks(n / 4, RK_THREADS), RK_THREADS, 0, stream, n / 4,
                  cols / 4, (const float4 *)from, from_stride / 4, (float4 *)to, to_stride / 4, overwrite);
    else
        RK_LAUNCH(copy_columns_kernel, rk_grid_blocks(n, RK_THREADS), RK_THREADS, 0, stream, n, cols, from,
                  from_stride, to, to_stride, overwrite);
}

__global__ static void zero_columns_kernel(int64_t n, int64_t cols, float *to, int64_t to_stride) {
    int64_t i = rk_thread_number();
    if (i >= n) return;
    int64_t r = i / cols, c = i - r * cols;
    to[r * to_stride + c] = 0;
}

/* to[r * to_stride + c] = 0, c < cols */
void rk_cuda_zero_columns(rk_stream *stream, int64_t rows, int64_t cols, float *to, int64_t to_stride) {
    RK_LAUNCH(zero_columns_kernel, rk_grid_blocks(rows * cols, RK_THREADS), RK_THREADS, 0, stream,
              rows * cols, cols, to, to_stride);
}

__global__ static void scatter_columns_kernel(int64_t n, int64_t cols, int64_t begin, int64_t count,
                                              const float *dy, float *dx) {
    int64_t i = rk_thread_number();
    if (i >= n) return;
    int64_t r = i / cols, c = i - r * cols - begin;
    dx[i] = c >= 0 && c < count ? dy[r * count + c] : 0;
}

/* dx[r, begin + c] = dy[r, c], and 0 in other columns: the first gradient of a slice */
void rk_cuda_scatter_columns(rk_stream *stream, int64_t rows, int64_t cols, int64_t begin, int64_t count,
                             const float *dy, float *dx) {
    RK_LAUNCH(scatter_columns_kernel, rk_grid_blocks(rows * cols, RK_THREADS), RK_THREADS, 0, stream,
              rows * cols, cols, begin, count, dy, dx);
}

/* Samples are small: what a warp reads with a stride is in the first cache when its neighbours come. */
__global__ static void transpose_kernel(int64_t n, int64_t rows, int64_t cols, const float *x, float *y,
                                        bool overwrite) {
    int64_t i = rk_thread_number();
    if (i >= n) return;
    int64_t s = i / (rows * cols), at = i - s * rows * cols, c = at / rows, r = at - c * rows;
    rk_store_gradient(&y[i], x[s * rows * cols + r * cols + c], overwrite);
}

/* y[s, c, r] += x[s, r, c] */
void rk_cuda_transpose(rk_stream *stream, int64_t n, int64_t rows, int64_t cols, const float *x, float *y,
                       bool overwrite) {
    int64_t all = n * rows * cols;
    RK_LAUNCH(transpose_kernel, rk_grid_blocks(all, RK_THREADS), RK_THREADS, 0, stream, all, rows, cols, x, y,
              overwrite);
}

__global__ static void sum_rows_kernel(int64_t n, int64_t rows, int64_t cols, const float *x, float *y) {
    int64_t i = rk_thread_number();
    if (i >= n) return;
    int64_t s = i / cols, c = i - s * cols;
    float sum = 0;
    x += s * rows * cols + c;
    for (int64_t r = 0; r < rows; r++) sum += x[r * cols];
    y[i] = sum;
}

/* y[s, c] = sum_r x[s, r, c] */
void rk_cuda_sum_rows(rk_stream *stream, int64_t n, int64_t rows, int64_t cols, const float *x, float *y) {
    RK_LAUNCH(sum_rows_kernel, rk_grid_blocks(n * cols, RK_THREADS), RK_THREADS, 0, stream, n * cols, rows,
              cols, x, y);
}

__global__ static void broadcast_rows_kernel(int64_t n, int64_t rows, int64_t cols, const float *dy,
                                             float *dx, bool overwrite) {
    int64_t i = rk_thread_number();
    if (i >= n) return;
    int64_t s = i / (rows * cols), c = i % cols;
    rk_store_gradient(&dx[i], dy[s * cols + c], overwrite);
}

/* dx[s, r, c] += dy[s, c] */
void rk_cuda_broadcast_rows(rk_stream *stream, int64_t n, int64_t rows, int64_t cols, const float *dy,
                            float *dx, bool overwrite) {
    int64_t all = n * rows * cols;
    RK_LAUNCH(broadcast_rows_kernel, rk_grid_blocks(all, RK_THREADS), RK_THREADS, 0, stream, all, rows, cols,
              dy, dx, overwrite);
}

__global__ static void rowwise_dot_kernel(int64_t rows, int64_t cols, const float *a, const float *b,
                                          int64_t b_rows, float *y, bool overwrite) {
    int64_t r = rk_warp_number();
    float sum = 0;
    if (r < rows) {
        a += r * cols;
        if (b) b += r % b_rows * cols;
        for (int64_t c = rk_lane_number(); c < cols; c += RK_WARP) sum += b ? a[c] * b[c] : a[c];
    }
    sum = rk_warp_sum(sum);
    if (r < rows && rk_lane_number() == 0) rk_store_gradient(&y[r], sum, overwrite);
}

/* y[r] += sum_c a[r, c] b[r % b_rows, c]; b NULL: ones */
void rk_cuda_rowwise_dot(rk_stream *stream, int64_t rows, int64_t cols, const float *a, const float *b,
                         int64_t b_rows, float *y, bool overwrite) {
    RK_LAUNCH(rowwise_dot_kernel, rk_grid_blocks_of_warps(rows), RK_THREADS, 0, stream, rows, cols, a, b,
              b_rows, y, overwrite);
}

__global__ static void rowwise_scale_kernel(int64_t n, int64_t cols, const float *scale, const float *v,
                                            int64_t v_values, float *y, bool overwrite) {
    int64_t i = rk_thread_number();
    if (i < n) rk_store_gradient(&y[i], scale[i / cols] * v[i % v_values], overwrite);
}

/* y[r, c] += scale[r] v[r % v_rows, c] */
void rk_cuda_rowwise_scale(rk_stream *stream, int64_t rows, int64_t cols, const float *scale, const float *v,
                           int64_t v_rows, float *y, bool overwrite) {
    RK_LAUNCH(rowwise_scale_kernel, rk_grid_blocks(rows * cols, RK_THREADS), RK_THREADS, 0, stream,
              rows * cols, cols, scale, v, v_rows * cols, y, overwrite);
}
