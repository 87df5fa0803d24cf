#include "cuda/platform.h"

extern "C" {
#include "base/float16.h"
#include "cuda/tables/row_exchange.h"
#include "kernels/rows.h"
}

#include "cuda/dense/dense_kernel_helpers.h"

__device__ static inline float load_value(const rk_cuda_rows_at &a, int64_t i) {
    if (a.dtype == RK_F32) return ((const float *)a.data)[i];
    uint16_t half = ((const uint16_t *)a.data)[i];
    return a.dtype == RK_BF16 ? rk_bf16_to_f32(half) : rk_f16_to_f32(half);
}

__device__ static inline void store_value(const rk_cuda_rows_at &a, int64_t i, float value) {
    if (a.dtype == RK_F32)
        ((float *)a.data)[i] = value;
    else
        ((uint16_t *)a.data)[i] =
            a.dtype == RK_BF16 ? rk_bf16_from_f32_finite(value) : rk_f16_from_f32_finite(value);
}

__global__ static void convert_rows_kernel(int64_t n, int32_t dim, rk_cuda_rows_at from, rk_cuda_rows_at to) {
    int64_t i = rk_thread_number();
    if (i >= n * dim) return;
    int64_t row = i / dim, column = i % dim;
    store_value(to, row * to.stride + column, load_value(from, row * from.stride + column));
}

/* to[r, c] = from[r, c], rounded to the nearest; what is finite stays so */
extern "C" void rk_cuda_convert_rows(rk_stream *stream, int64_t n, int32_t dim, const rk_cuda_rows_at *from,
                                     const rk_cuda_rows_at *to) {
    RK_LAUNCH(convert_rows_kernel, rk_grid_blocks(n * dim, RK_THREADS), RK_THREADS, 0, stream, n, dim, *from,
              *to);
}

/* One thread for each loss, and one for the bits. */
__global__ static void combine_step_statuses_kernel(int32_t n_ranks, int32_t n_losses,
                                                    const double *step_statuses, double *out) {
    int32_t i = (int32_t)threadIdx.x, width = n_losses + 1;
    for (; i < width; i += RK_THREADS) {
        double loss = 0;
        uint32_t stop = 0;
        for (int32_t r = 0; r < n_ranks; r++) {
            const double *from = step_statuses + (int64_t)r * width + i;
            if (i < n_losses)
                loss += *from;
            else
                stop |= *(const uint32_t *)from;
        }
        if (i < n_losses)
            out[i] = loss;
        else
            *(uint32_t *)(out + i) = stop;
    }
}

/* step statuses [n_ranks, n_losses + 1]: losses, then `stop`, of each rank. out: the losses' sums in the
 * order of the ranks, and all bits of stop */
extern "C" void rk_cuda_combine_step_statuses(rk_stream *stream, int32_t n_ranks, int32_t n_losses,
                                              const double *step_statuses, double *out) {
    RK_LAUNCH(combine_step_statuses_kernel, 1, RK_THREADS, 0, stream, n_ranks, n_losses, step_statuses, out);
}
