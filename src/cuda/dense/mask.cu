/* Which rows are there (nn/ops/op_mask.c), and the weights of attention among those. */
#include "cuda/platform.h"

#include "cuda/dense/dense_kernel_helpers.h"

__global__ static void length_mask_kernel(int64_t n, int64_t rows, int64_t count, const float *lengths,
                                          int64_t stride, float *y) {
    int64_t i = rk_thread_number(), s = i / rows, r = i - s * rows;
    if (i < n) y[i] = r < count || (float)(r - count + 1) <= lengths[s * stride];
}

/* y[s, r]: 1 for the first count rows and for lengths[s * stride] after them, else 0 */
void rk_cuda_length_mask(rk_stream *stream, int64_t n, int64_t rows, int64_t count, const float *lengths,
                         int64_t stride, float *y) {
    RK_LAUNCH(length_mask_kernel, rk_grid_blocks(n * rows, RK_THREADS), RK_THREADS, 0, stream, n * rows, rows,
              count, lengths, stride, y);
}

/* A warp a row of a. */
__global__ static void masked_softmax_kernel(int64_t n, int64_t heads, int64_t rows, const float *there,
                                             float *a) {
    int64_t number = rk_warp_number(), s = number / (heads * rows);
    bool here = number < n * heads * rows;
    float most = -INFINITY, sum = 0;
    there += s * rows;
    a += number * rows;
    bool weighs = here && there[number % rows] > 0;
    for (int64_t c = rk_lane_number(); weighs && c < rows; c += RK_WARP)
        most = there[c] > 0 ? fmaxf(most, a[c]) : most;
    most = rk_warp_max(most);
    for (int64_t c = rk_lane_number(); here && c < rows; c += RK_WARP)
        sum += a[c] = weighs && there[c] > 0 ? (float)exp((double)(a[c] - most)) : 0;
    sum = rk_warp_sum(sum);
    for (int64_t c = rk_lane_number(); weighs && c < rows; c += RK_WARP) a[c] /= sum;
}

/* a [n, heads, rows, rows]: each row's softmax over the columns c where there[s, c] > 0, and 0 elsewhere; a
 * row r where there[s, r] is not above 0 becomes zeros */
void rk_cuda_masked_softmax(rk_stream *stream, int64_t n, int64_t heads, int64_t rows, const float *there,
                            float *a) {
    RK_LAUNCH(masked_softmax_kernel, rk_grid_blocks_of_warps(n * heads * rows), RK_THREADS, 0, stream, n,
              heads, rows, there, a);
}
