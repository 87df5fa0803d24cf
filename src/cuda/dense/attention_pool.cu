/* A sequence by its weights (nn/ops/op_attention_pool.c), a warp a sample. */
#include "cuda/platform.h"

#include "cuda/dense/dense_kernel_helpers.h"

__device__ static inline int64_t length_of_sample(const float *lengths, int64_t stride, int64_t s,
                                                  int64_t rows) {
    float length = lengths[s * stride];
    return length < 1 ? 0 : length < (float)rows ? (int64_t)length : rows;
}

__global__ static void attention_pool_kernel(int64_t n, int64_t rows, int64_t cols, bool softmax,
                                             const float *w, const float *k, const float *lengths,
                                             int64_t stride, float *y, float *used) {
    int64_t s = rk_warp_number(), length = s < n ? length_of_sample(lengths, stride, s, rows) : 0;
    float most = -INFINITY, sum = 0;
    w += s * rows;
    used += s * rows;
    for (int64_t r = rk_lane_number(); r < length; r += RK_WARP) most = fmaxf(most, w[r]);
    most = rk_warp_max(most);
    for (int64_t r = rk_lane_number(); r < length; r += RK_WARP)
        sum += used[r] = softmax ? (float)exp((double)(w[r] - most)) : w[r];
    sum = rk_warp_sum(sum);
    for (int64_t r = rk_lane_number(); softmax && r < length; r += RK_WARP) used[r] /= sum;
    __syncwarp();
    for (int64_t c = rk_lane_number(); s < n && c < cols; c += RK_WARP) {
        float total = 0;
        for (int64_t r = 0; r < length; r++) total += used[r] * k[(s * rows + r) * cols + c];
        y[s * cols + c] = total;
    }
}

/* used[s, r]: w[s, r], or its softmax, before the length lengths[s * stride];  y[s, c] = sum_r used[s, r]
 * k[s, r, c] */
void rk_cuda_attention_pool(rk_stream *stream, int64_t n, int64_t rows, int64_t cols, bool softmax,
                            const float *w, const float *k, const float *lengths, int64_t lengths_stride,
                            float *y, float *used) {
    RK_LAUNCH(attention_pool_kernel, rk_grid_blocks_of_warps(n), RK_THREADS, 0, stream, n, rows, cols,
              softmax, w, k, lengths, lengths_stride, y, used);
}

/* dw's first gradient writes zeros beyond the length, and so does dk's. */
__global__ static void attention_pool_backward_kernel(int64_t n, int64_t rows, int64_t cols, bool softmax,
                                                      const float *used, const float *k, const float *lengths,
                                                      int64_t stride, const float *dy, float *dused,
                                                      float *dw, bool overwrite_w, float *dk,
                                                      bool overwrite_k) {
    int64_t s = rk_warp_number(), length = s < n ? length_of_sample(lengths, stride, s, rows) : 0,
            first_row = s * rows;
    float dot = 0;
    for (int64_t r = 0; r < length; r++) { /* a row at a time, by the warp */
        float sum = 0;
        for (int64_t c = rk_lane_number(); c < cols; c += RK_WARP)
            sum += dy[s * cols + c] * k[(first_row + r) * cols + c];
        sum = rk_warp_sum(sum);
        if (rk_lane_number() == 0) dused[first_row + r] = sum;
    }
    __syncwarp();
    for (int64_t r = rk_lane_number(); r < length; r += RK_WARP)
        dot += used[first_row + r] * dused[first_row + r];
    dot = rk_warp_sum(dot);
    for (int64_t r = rk_lane_number(); s < n && r < rows; r += RK_WARP) {
        float d = r >= length ? 0
                  : softmax   ? used[first_row + r] * (dused[first_row + r] - dot)
                              : dused[first_row + r];
        if (r < length || overwrite_w) rk_store_gradient(&dw[first_row + r], d, overwrite_w);
    }
    __syncwarp();
    for (int64_t r = 0; s < n && r < (overwrite_k ? rows : length); r++)
        for (int64_t c = rk_lane_number(); c < cols; c += RK_WARP)
            rk_store_gradient(&dk[(first_row + r) * cols + c],
                              r < length ? used[first_row + r] * dy[s * cols + c] : 0, overwrite_k);
}

/* dused [n, rows]: scratch */
void rk_cuda_attention_pool_backward(rk_stream *stream, int64_t n, int64_t rows, int64_t cols, bool softmax,
                                     const float *used, const float *k, const float *lengths,
                                     int64_t lengths_stride, const float *dy, float *dused, float *dw,
                                     bool overwrite_w, float *dk, bool overwrite_k) {
    RK_LAUNCH(attention_pool_backward_kernel, rk_grid_blocks_of_warps(n), RK_THREADS, 0, stream, n, rows,
              cols, softmax, used, k, lengths, lengths_stride, dy, dused, dw, overwrite_w, dk, overwrite_k);
}
