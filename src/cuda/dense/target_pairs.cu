/* What DIN's activation unit sees of each position (nn/ops/op_target_pairs.c). A thread has one column of one
 * sample. */
#include "cuda/platform.h"

#include "cuda/dense/dense_kernel_helpers.h"

__global__ static void target_pairs_kernel(int64_t n, int64_t rows, int64_t cols, const float *q,
                                           const float *k, float *y) {
    int64_t i = rk_thread_number();
    if (i >= n) return;
    int64_t s = i / cols, c = i - s * cols;
    float target = q[i];
    for (int64_t r = s * rows; r < (s + 1) * rows; r++) {
        float *to = y + r * 4 * cols + c, key = k[r * cols + c];
        to[0] = target;
        to[cols] = key;
        to[2 * cols] = target - key;
        to[3 * cols] = target * key;
    }
}

/* y[s, r] = [q_s, k_sr, q_s - k_sr, q_s * k_sr] */
void rk_cuda_target_pairs(rk_stream *stream, int64_t n, int64_t rows, int64_t cols, const float *q,
                          const float *k, float *y) {
    RK_LAUNCH(target_pairs_kernel, rk_grid_blocks(n * cols, RK_THREADS), RK_THREADS, 0, stream, n * cols,
              rows, cols, q, k, y);
}

__global__ static void target_pairs_backward_kernel(int64_t n, int64_t rows, int64_t cols, const float *q,
                                                    const float *k, const float *dy, float *dq,
                                                    bool overwrite_q, float *dk, bool overwrite_k) {
    int64_t i = rk_thread_number();
    if (i >= n) return;
    int64_t s = i / cols, c = i - s * cols;
    float sum = 0, target = q[i];
    for (int64_t r = s * rows; r < (s + 1) * rows; r++) {
        const float *d = dy + r * 4 * cols + c;
        sum += d[0] + d[2 * cols] + d[3 * cols] * k[r * cols + c];
    }
    rk_store_gradient(&dq[i], sum, overwrite_q);
    for (int64_t r = s * rows; r < (s + 1) * rows; r++) {
        const float *d = dy + r * 4 * cols + c;
        rk_store_gradient(&dk[r * cols + c], d[cols] - d[2 * cols] + d[3 * cols] * target, overwrite_k);
    }
}

void rk_cuda_target_pairs_backward(rk_stream *stream, int64_t n, int64_t rows, int64_t cols, const float *q,
                                   const float *k, const float *dy, float *dq, bool overwrite_q, float *dk,
                                   bool overwrite_k) {
    RK_LAUNCH(target_pairs_backward_kernel, rk_grid_blocks(n * cols, RK_THREADS), RK_THREADS, 0, stream,
              n * cols, rows, cols, q, k, dy, dq, overwrite_q, dk, overwrite_k);
}
