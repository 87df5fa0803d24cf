/* What the .cu files of dense operations share: threads over values, four at a time, and sums over a warp. */
#ifndef RK_CUDA_DENSE_DENSE_KERNEL_HELPERS_H
#define RK_CUDA_DENSE_DENSE_KERNEL_HELPERS_H

#include "cuda/platform.h"

#include "cuda/dense/dense.h"

enum { RK_THREADS = 256, RK_WARPS = RK_THREADS / RK_WARP };

/* Blocks for n things, so many a block. */
static inline uint32_t rk_grid_blocks(int64_t n, int64_t a_block) {
    return (uint32_t)((n + a_block - 1) / a_block);
}
/* A thread a thing, or several where that would be more blocks than `most`. */
static inline uint32_t rk_grid_blocks_up_to(int64_t n, uint32_t most) {
    uint32_t blocks = rk_grid_blocks(n, RK_THREADS);
    return blocks < most ? blocks : most;
}
/* Blocks where each thread has four values, or each warp one row. */
static inline uint32_t rk_grid_blocks_of_quads(int64_t n) {
    return rk_grid_blocks(n, 4 * RK_THREADS);
}
static inline uint32_t rk_grid_blocks_of_warps(int64_t n) {
    return rk_grid_blocks(n, RK_WARPS);
}

__device__ static inline int64_t rk_thread_number(void) {
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}
__device__ static inline int64_t rk_warp_number(void) {
    return rk_thread_number() / RK_WARP;
}
__device__ static inline int rk_lane_number(void) {
    return (int)(threadIdx.x % RK_WARP);
}

/* A gradient: the first of its value overwrites, others are added. */
__device__ static inline void rk_store_gradient(float *to, float value, bool overwrite) {
    *to = overwrite ? value : *to + value;
}

/* Values i .. i+3 of n, i a multiple of 4, x aligned to 16 bytes. Those beyond the end are zeros, and are not
 * written. */
__device__ static inline float4 rk_load4(const float *x, int64_t i, int64_t n) {
    if (i + 4 <= n) return *(const float4 *)(x + i);
    return make_float4(x[i], i + 1 < n ? x[i + 1] : 0, i + 2 < n ? x[i + 2] : 0, 0);
}
__device__ static inline void rk_store4(float *y, int64_t i, int64_t n, float4 v) {
    if (i + 4 <= n) {
        *(float4 *)(y + i) = v;
        return;
    }
    y[i] = v.x;
    if (i + 1 < n) y[i + 1] = v.y;
    if (i + 2 < n) y[i + 2] = v.z;
}
__device__ static inline void rk_store_gradient4(float *y, int64_t i, int64_t n, float4 v, bool overwrite) {
    if (!overwrite) {
        float4 before = rk_load4(y, i, n);
        v = make_float4(before.x + v.x, before.y + v.y, before.z + v.z, before.w + v.w);
    }
    rk_store4(y, i, n, v);
}

/* The sum over a warp, the same bits in every lane. */
__device__ static inline float rk_warp_sum(float x) {
    for (int width = RK_WARP / 2; width; width /= 2) x += __shfl_xor_sync(0xffffffffu, x, width);
    return x;
}
__device__ static inline double rk_warp_sum_f64(double x) {
    for (int width = RK_WARP / 2; width; width /= 2) x += __shfl_xor_sync(0xffffffffu, x, width);
    return x;
}
__device__ static inline float rk_warp_max(float x) {
    for (int width = RK_WARP / 2; width; width /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, width));
    return x;
}

/* The sum over a block of RK_THREADS, in every thread; sums: shared, RK_WARPS values, free to be written. */
__device__ static inline double rk_block_sum_f64(double x, double *sums) {
    x = rk_warp_sum_f64(x);
    __syncthreads();
    if (rk_lane_number() == 0) sums[threadIdx.x / RK_WARP] = x;
    __syncthreads();
    double sum = 0;
    for (int w = 0; w < RK_WARPS; w++) sum += sums[w];
    return sum;
}

#endif
