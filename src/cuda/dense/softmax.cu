/* Softmax over the columns of each row, a warp a row. */
#include "cuda/platform.h"

#include "cuda/dense/dense_kernel_helpers.h"

__global__ static void softmax_kernel(int64_t rows, int64_t cols, const float *x, float *y) {
    int64_t r = rk_warp_number();
    bool here = r < rows;
    float most = -INFINITY, sum = 0;
    if (here) {
        x += r * cols;
        y += r * cols;
        for (int64_t c = rk_lane_number(); c < cols; c += RK_WARP) most = fmaxf(most, x[c]);
    }
    most = rk_warp_max(most);
    for (int64_t c = rk_lane_number(); here && c < cols; c += RK_WARP)
        sum += y[c] = (float)exp((double)(x[c] - most));
    sum = rk_warp_sum(sum);
    for (int64_t c = rk_lane_number(); here && c < cols; c += RK_WARP) y[c] /= sum;
}

/* y[r, c] = exp(x[r, c] - max) / sum; y may be x */
void rk_cuda_softmax(rk_stream *stream, int64_t rows, int64_t cols, const float *x, float *y) {
    RK_LAUNCH(softmax_kernel, rk_grid_blocks_of_warps(rows), RK_THREADS, 0, stream, rows, cols, x, y);
}

__global__ static void softmax_backward_kernel(int64_t rows, int64_t cols, const float *y, const float *dy,
                                               float *dx, bool overwrite) {
    int64_t r = rk_warp_number();
    bool here = r < rows;
    float dot = 0;
    y += r * cols;
    dy += r * cols;
    for (int64_t c = rk_lane_number(); here && c < cols; c += RK_WARP) dot += y[c] * dy[c];
    dot = rk_warp_sum(dot);
    for (int64_t c = rk_lane_number(); here && c < cols; c += RK_WARP)
        rk_store_gradient(&dx[r * cols + c], y[c] * (dy[c] - dot), overwrite);
}

/* dx += y (dy - y . dy); dx may be dy if it is the first */
void rk_cuda_softmax_backward(rk_stream *stream, int64_t rows, int64_t cols, const float *y, const float *dy,
                              float *dx, bool overwrite) {
    RK_LAUNCH(softmax_backward_kernel, rk_grid_blocks_of_warps(rows), RK_THREADS, 0, stream, rows, cols, y,
              dy, dx, overwrite);
}
