#include "cuda/platform.h"

#include "cuda/test_device.h"

__global__ static void add_one(int64_t n, float *x) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += 1;
}
void test_add_one(rk_stream *stream, int64_t n, float *x) {
    RK_LAUNCH(add_one, (unsigned)((n + 127) / 128), 128, 0, stream, n, x);
}

enum { BLOCK = 64 };
__global__ static void suffix_sums(int64_t n, const float *in, float *out) {
    RK_SHARED(float, values, BLOCK);
    RK_SHARED(float, warp_sums, BLOCK / RK_WARP);
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    unsigned t = threadIdx.x, lane = t % RK_WARP;
    values[BLOCK - 1 - t] = i < n ? in[i] : 0.0f; /* others read them backwards */
    __syncthreads();
    float sum = values[BLOCK - 1 - t];
    for (unsigned d = 1; d < RK_WARP; d *= 2) {
        float above = __shfl_down_sync(RK_FULL_WARP, sum, d);
        if (lane + d < RK_WARP) sum += above;
    }
    if (lane == 0) warp_sums[t / RK_WARP] = sum;
    __syncthreads();
    for (unsigned w = t / RK_WARP + 1; w < BLOCK / RK_WARP; w++) sum += warp_sums[w];
    if (i < n) out[i] = sum;
}
void test_suffix_sums(rk_stream *stream, int64_t n, const float *in, float *out) {
    RK_LAUNCH(suffix_sums, (unsigned)((n + BLOCK - 1) / BLOCK), BLOCK, 0, stream, n, in, out);
}

void test_too_many_threads(rk_stream *stream, float *x) {
    RK_LAUNCH(add_one, 1, 2048, 0, stream, 1, x);
}
