/* Batch norm after its sums over the batch, which rk_cuda_column_sums makes: the mean (PLAIN over n), the
 * squares around it (SQUARES), and those of backward (BY_COLUMN). */
#include "cuda/platform.h"

#include "cuda/dense/dense_kernel_helpers.h"

__global__ static void finish_statistics_kernel(int64_t n, int64_t cols, rk_cuda_batch_norm a) {
    int64_t c = rk_thread_number();
    if (c >= cols) return;
    double squares = (double)a.scale[c], unbiased = n > 1 ? squares / (double)(n - 1) : squares;
    a.scale[c] = (float)(1 / sqrt(squares / (double)n + a.epsilon));
    a.running_mean[c] =
        (float)((1 - a.momentum) * (double)a.running_mean[c] + a.momentum * (double)a.mean[c]);
    a.running_variance[c] = (float)((1 - a.momentum) * (double)a.running_variance[c] + a.momentum * unbiased);
}

/* scale, until now the sum of squares around mean, becomes 1 / deviation; the running ones take their part */
void rk_cuda_batch_norm_statistics(rk_stream *stream, int64_t n, int64_t cols,
                                   const rk_cuda_batch_norm *norm) {
    RK_LAUNCH(finish_statistics_kernel, rk_grid_blocks(cols, RK_THREADS), RK_THREADS, 0, stream, n, cols,
              *norm);
}

__global__ static void use_running_statistics_kernel(int64_t cols, rk_cuda_batch_norm a) {
    int64_t c = rk_thread_number();
    if (c >= cols) return;
    a.mean[c] = a.running_mean[c];
    a.scale[c] = (float)(1 / sqrt((double)a.running_variance[c] + a.epsilon));
}

/* mean and scale as the running ones have them, for prediction */
void rk_cuda_batch_norm_use_running(rk_stream *stream, int64_t cols, const rk_cuda_batch_norm *norm) {
    RK_LAUNCH(use_running_statistics_kernel, rk_grid_blocks(cols, RK_THREADS), RK_THREADS, 0, stream, cols,
              *norm);
}

__global__ static void batch_norm_forward_kernel(int64_t n, int64_t cols, const float *mean,
                                                 const float *scale, const float *gamma, const float *beta,
                                                 const float *x, float *y) {
    int64_t i = rk_thread_number();
    if (i >= n) return;
    int64_t c = i % cols;
    y[i] = gamma[c] * ((x[i] - mean[c]) * scale[c]) + beta[c];
}

/* y[s, c] = gamma[c] (x[s, c] - mean[c]) scale[c] + beta[c] */
void rk_cuda_batch_norm_forward(rk_stream *stream, int64_t n, int64_t cols, const float *mean,
                                const float *scale, const float *gamma, const float *beta, const float *x,
                                float *y) {
    RK_LAUNCH(batch_norm_forward_kernel, rk_grid_blocks(n * cols, RK_THREADS), RK_THREADS, 0, stream,
              n * cols, cols, mean, scale, gamma, beta, x, y);
}

__global__ static void batch_norm_backward_kernel(int64_t n, int64_t total, int64_t cols, const float *mean,
                                                  const float *scale, const float *gamma, const float *dots,
                                                  const float *sums, const float *x, const float *dy,
                                                  float *dx, bool overwrite) {
    int64_t i = rk_thread_number();
    if (i >= n * cols) return;
    int64_t c = i % cols;
    float hat = (x[i] - mean[c]) * scale[c], inverse = (float)(1.0 / (double)total);
    rk_store_gradient(&dx[i], gamma[c] * scale[c] * (dy[i] - inverse * (sums[c] + hat * dots[c])), overwrite);
}

/* dots: sum_s dy x-hat;  sums: sum_s dy; over the `total` samples of the batch, of which n are here */
void rk_cuda_batch_norm_backward(rk_stream *stream, int64_t n, int64_t total, int64_t cols, const float *mean,
                                 const float *scale, const float *gamma, const float *dots, const float *sums,
                                 const float *x, const float *dy, float *dx, bool overwrite) {
    RK_LAUNCH(batch_norm_backward_kernel, rk_grid_blocks(n * cols, RK_THREADS), RK_THREADS, 0, stream, n,
              total, cols, mean, scale, gamma, dots, sums, x, dy, dx, overwrite);
}
