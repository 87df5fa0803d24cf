/* The second order of a factorization machine (nn/ops/op_fm.c), and a cross layer of DCN
 * (nn/ops/op_cross_v1.c): a warp a sample. */
#include "cuda/platform.h"

#include "cuda/dense/dense_kernel_helpers.h"

__global__ static void fm_kernel(int64_t n, int64_t rows, int64_t cols, const float *x, float *y,
                                 float *sums) {
    int64_t s = rk_warp_number();
    float total = 0;
    for (int64_t c = rk_lane_number(); s < n && c < cols; c += RK_WARP) {
        float sum = 0, squares = 0;
        for (int64_t r = 0; r < rows; r++) {
            float v = x[(s * rows + r) * cols + c];
            sum += v;
            squares += v * v;
        }
        sums[s * cols + c] = sum;
        total += (sum * sum - squares) / 2;
    }
    total = rk_warp_sum(total);
    if (s < n && rk_lane_number() == 0) y[s] = total;
}

/* y[s] = sum_c ((sum_r x[s, r, c])^2 - sum_r x[s, r, c]^2) / 2;  sums[s, c] = sum_r x[s, r, c] */
void rk_cuda_fm(rk_stream *stream, int64_t n, int64_t rows, int64_t cols, const float *x, float *y,
                float *sums) {
    RK_LAUNCH(fm_kernel, rk_grid_blocks_of_warps(n), RK_THREADS, 0, stream, n, rows, cols, x, y, sums);
}

__global__ static void fm_backward_kernel(int64_t n, int64_t width, int64_t cols, const float *x,
                                          const float *sums, const float *dy, float *dx, bool overwrite) {
    int64_t i = rk_thread_number();
    if (i >= n * width) return;
    int64_t s = i / width;
    rk_store_gradient(&dx[i], dy[s] * (sums[s * cols + i % cols] - x[i]), overwrite);
}

/* dx[s, r, c] += dy[s] (sums[s, c] - x[s, r, c]) */
void rk_cuda_fm_backward(rk_stream *stream, int64_t n, int64_t rows, int64_t cols, const float *x,
                         const float *sums, const float *dy, float *dx, bool overwrite) {
    RK_LAUNCH(fm_backward_kernel, rk_grid_blocks(n * rows * cols, RK_THREADS), RK_THREADS, 0, stream, n,
              rows * cols, cols, x, sums, dy, dx, overwrite);
}

__global__ static void cross_v1_kernel(int64_t n, int64_t cols, const float *x0, const float *x,
                                       const float *w, const float *b, float *y, float *dots) {
    int64_t s = rk_warp_number();
    bool here = s < n;
    float dot = 0;
    for (int64_t c = rk_lane_number(); here && c < cols; c += RK_WARP) dot += x[s * cols + c] * w[c];
    dot = rk_warp_sum(dot);
    for (int64_t c = rk_lane_number(); here && c < cols; c += RK_WARP)
        y[s * cols + c] = x0[s * cols + c] * dot + b[c] + x[s * cols + c];
    if (here && rk_lane_number() == 0) dots[s] = dot;
}

/* dots[s] = x[s] . w;  y[s, c] = x0[s, c] dots[s] + b[c] + x[s, c] */
void rk_cuda_cross_v1(rk_stream *stream, int64_t n, int64_t cols, const float *x0, const float *x,
                      const float *w, const float *b, float *y, float *dots) {
    RK_LAUNCH(cross_v1_kernel, rk_grid_blocks_of_warps(n), RK_THREADS, 0, stream, n, cols, x0, x, w, b, y,
              dots);
}

__global__ static void cross_v1_backward_kernel(int64_t n, int64_t cols, const float *w, const float *dots,
                                                const float *ddots, const float *dy, float *dx0,
                                                bool overwrite0, float *dx, bool overwrite1) {
    int64_t i = rk_thread_number();
    if (i >= n * cols) return;
    int64_t s = i / cols, c = i - s * cols;
    rk_store_gradient(&dx0[i], dy[i] * dots[s], overwrite0);
    rk_store_gradient(&dx[i], dy[i] + ddots[s] * w[c], overwrite1);
}

/* ddots[s] = dy[s] . x0[s]:  dx0 += dy dots;  dx += dy + ddots w */
void rk_cuda_cross_v1_backward(rk_stream *stream, int64_t n, int64_t cols, const float *w, const float *dots,
                               const float *ddots, const float *dy, float *dx0, bool overwrite0, float *dx,
                               bool overwrite1) {
    RK_LAUNCH(cross_v1_backward_kernel, rk_grid_blocks(n * cols, RK_THREADS), RK_THREADS, 0, stream, n, cols,
              w, dots, ddots, dy, dx0, overwrite0, dx, overwrite1);
}
