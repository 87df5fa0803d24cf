/* What the .cu files of tables share: threads over items, and rows and gradients four values at a time. */
#ifndef RK_CUDA_TABLE_DEVICE_H
#define RK_CUDA_TABLE_DEVICE_H

#include "cuda/platform.h"

extern "C" {
#include "base/float16.h"
#include "cuda/table.h"
}

enum { RK_TABLE_THREADS = 256, RK_TABLE_WARPS = RK_TABLE_THREADS / RK_WARP, RK_TABLE_BLOCKS = 4096 };

/* Blocks for at most n items, so many a block; each goes on to further items where they are more. */
static inline uint32_t rk_table_blocks(uint64_t n, uint64_t a_block) {
    uint64_t blocks = (n + a_block - 1) / a_block;
    return blocks < RK_TABLE_BLOCKS ? (uint32_t)blocks : (uint32_t)RK_TABLE_BLOCKS;
}

__device__ static inline uint32_t rk_table_thread(void) { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ static inline uint32_t rk_table_n_threads(void) { return gridDim.x * blockDim.x; }
__device__ static inline uint32_t rk_table_warp(void) { return rk_table_thread() / RK_WARP; }
__device__ static inline uint32_t rk_table_n_warps(void) { return rk_table_n_threads() / RK_WARP; }
__device__ static inline uint32_t rk_table_lane(void) { return threadIdx.x % RK_WARP; }

/* Whether the batch was refused: nothing is looked up or updated for it. */
__device__ static inline bool rk_batch_is_refused(const rk_cuda_batch *batch) { return batch->counts->bad_id || batch->counts->short_table; }

/* Columns column .. column+3 of a row; those beyond its last are 0. A load of 16 bytes (8 of bf16 and f16) where dim is a multiple of 4. */
__device__ static inline void rk_load_strip(const rk_cuda_table *table, const void *rows, uint64_t place, int32_t column, float v[4]) {
    int32_t dim = table->dim;
    uint64_t at = place * (uint64_t)dim + (uint64_t)column;
    v[0] = v[1] = v[2] = v[3] = 0;
    if (table->dtype == RK_F32) {
        const float *row = (const float *)rows + at;
        if (dim % 4 == 0) {
            if (column >= dim) return;
            float4 x = *(const float4 *)row;
            v[0] = x.x, v[1] = x.y, v[2] = x.z, v[3] = x.w;
        } else {
            for (int32_t j = 0; j < 4 && column + j < dim; j++) v[j] = row[j];
        }
        return;
    }
    const uint16_t *row = (const uint16_t *)rows + at;
    uint16_t halves[4] = {0, 0, 0, 0};
    if (dim % 4 == 0) {
        if (column >= dim) return;
        uint2 x = *(const uint2 *)row;
        halves[0] = (uint16_t)x.x, halves[1] = (uint16_t)(x.x >> 16), halves[2] = (uint16_t)x.y, halves[3] = (uint16_t)(x.y >> 16);
    } else {
        for (int32_t j = 0; j < 4 && column + j < dim; j++) halves[j] = row[j];
    }
    for (int j = 0; j < 4; j++) v[j] = table->dtype == RK_BF16 ? rk_bf16_to_f32(halves[j]) : rk_f16_to_f32(halves[j]);
}

/* The same of f32 values of the device: activations, gradients, slots, partial sums. `aligned`: to 16 bytes. */
__device__ static inline void rk_load_floats(const float *row, int32_t column, int32_t dim, bool aligned, float v[4]) {
    v[0] = v[1] = v[2] = v[3] = 0;
    if (column >= dim) return;
    if (aligned) {
        float4 x = *(const float4 *)(row + column);
        v[0] = x.x, v[1] = x.y, v[2] = x.z, v[3] = x.w;
    } else {
        for (int32_t j = 0; j < 4 && column + j < dim; j++) v[j] = row[column + j];
    }
}

__device__ static inline void rk_store_floats(float *row, int32_t column, int32_t dim, bool aligned, const float v[4]) {
    if (column >= dim) return;
    if (aligned)
        *(float4 *)(row + column) = make_float4(v[0], v[1], v[2], v[3]);
    else
        for (int32_t j = 0; j < 4 && column + j < dim; j++) row[column + j] = v[j];
}

/* The feature that a tile of the lookup is of: the last one that begins at or before it and has tiles. */
__device__ static inline uint32_t rk_tile_feature(const rk_cuda_batch *batch, uint32_t tile) {
    uint32_t low = 0, high = batch->n_features;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (batch->feature_ids[middle].first_tile <= tile)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The sum over the groups of a warp of what lane l of each has, in a fixed order; in all groups. */
__device__ static inline void rk_sum_groups(float v[4], uint32_t class_) {
    for (uint32_t width = 1u << class_; width < RK_WARP; width *= 2)
        for (int j = 0; j < 4; j++) v[j] += __shfl_xor_sync(RK_FULL_WARP, v[j], (int)width);
}

#endif
