/* What the .cu files of tables share: threads over items, and rows and gradients four values at a time. */
#ifndef RK_CUDA_TABLES_TABLE_KERNEL_HELPERS_H
#define RK_CUDA_TABLES_TABLE_KERNEL_HELPERS_H

#include "cuda/platform.h"

extern "C" {
#include "base/float16.h"
#include "cuda/tables/table.h"
}

enum {
    RK_TABLE_THREADS = 256,
    RK_TABLE_WARPS = RK_TABLE_THREADS / RK_WARP,
    RK_TABLE_BLOCKS = 4096,
    RK_CHUNK_BLOCKS = 264
};

/* Blocks for at most n items, so many a block; each goes on to further items where they are more. */
static inline uint32_t rk_table_grid_size(uint64_t n, uint64_t a_block) {
    uint64_t blocks = (n + a_block - 1) / a_block;
    return blocks < RK_TABLE_BLOCKS ? (uint32_t)blocks : (uint32_t)RK_TABLE_BLOCKS;
}

/* As many blocks as the card's processors hold at once, so many each: they go through the items together, and
 * what neighbours read twice is still in the cache. */
static inline uint32_t rk_table_resident_grid_size(rk_stream *stream, uint64_t n, uint64_t a_block,
                                                   uint32_t blocks_a_processor) {
    uint32_t resident = (uint32_t)rk_stream_n_processors(stream) * blocks_a_processor,
             blocks = rk_table_grid_size(n, a_block);
    return blocks < resident ? blocks : resident;
}

/* Of chunks, a warp each: most batches have few or none, so that their launch costs what its blocks do. Two a
 * multiprocessor of large cards. */
static inline uint32_t rk_chunk_grid_size(uint64_t n_most) {
    uint32_t blocks = rk_table_grid_size(n_most, RK_TABLE_WARPS);
    return blocks < RK_CHUNK_BLOCKS ? blocks : (uint32_t)RK_CHUNK_BLOCKS;
}

__device__ static inline uint32_t rk_table_thread_number(void) {
    return blockIdx.x * blockDim.x + threadIdx.x;
}
__device__ static inline uint32_t rk_table_n_threads(void) {
    return gridDim.x * blockDim.x;
}
__device__ static inline uint32_t rk_table_warp_number(void) {
    return rk_table_thread_number() / RK_WARP;
}
__device__ static inline uint32_t rk_table_n_warps(void) {
    return rk_table_n_threads() / RK_WARP;
}
__device__ static inline uint32_t rk_table_lane_number(void) {
    return threadIdx.x % RK_WARP;
}

__device__ static inline uint64_t rk_sorted_key(const rk_cuda_batch *batch, uint32_t p) {
    return batch->has_narrow_keys ? ((const uint32_t *)batch->sorted_keys)[p]
                                  : ((const uint64_t *)batch->sorted_keys)[p];
}

/* Whether the batch was refused: nothing is looked up or updated for it. */
__device__ static inline bool rk_batch_is_refused(const rk_cuda_batch *batch) {
    return batch->counts->bad_id || batch->counts->short_table;
}

/* Four values of bf16 or f16. */
__device__ static inline void rk_widen_halves(int32_t dtype, uint2 x, float v[4]) {
    uint16_t halves[4] = {(uint16_t)x.x, (uint16_t)(x.x >> 16), (uint16_t)x.y, (uint16_t)(x.y >> 16)};
    for (int j = 0; j < 4; j++)
        v[j] = dtype == RK_BF16 ? rk_bf16_to_f32(halves[j]) : rk_f16_to_f32(halves[j]);
}

/* Columns column .. column+3 of a row; those beyond its last are 0. A load of 16 bytes (8 of bf16 and f16)
 * where dim is a multiple of 4. */
__device__ static inline void rk_load_strip(const rk_cuda_table *table, const void *rows, uint64_t place,
                                            int32_t column, float v[4]) {
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
    if (column >= dim) return;
    if (dim % 4 == 0)
        rk_widen_halves(table->dtype, *(const uint2 *)row, v);
    else
        for (int32_t j = 0; j < 4 && column + j < dim; j++)
            v[j] = table->dtype == RK_BF16 ? rk_bf16_to_f32(row[j]) : rk_f16_to_f32(row[j]);
}

/* How rows are read: four values at once where dim is a multiple of 4, of f32 or of bf16 and f16; else one by
 * one. */
enum { RK_ROWS_F32, RK_ROWS_HALVES, RK_ROWS_ODD };
__device__ static inline int rk_rows_layout(const rk_cuda_table *table) {
    return table->dim % 4 ? RK_ROWS_ODD : table->dtype == RK_F32 ? RK_ROWS_F32 : RK_ROWS_HALVES;
}

/* Columns column .. column+3 (below dim) of RK_CUDA_TILE rows; where a place is RK_CUDA_NONE, of any row. No
 * condition stands between the loads: with one, each waits for the row before it, and a quarter of the rows
 * is under way. */
template <int layout>
__device__ static inline void rk_load_strips(const rk_cuda_table *table, const uint32_t places[RK_CUDA_TILE],
                                             int32_t column, float v[RK_CUDA_TILE][4]) {
    uint64_t dim = (uint64_t)table->dim, at[RK_CUDA_TILE];
    for (int u = 0; u < RK_CUDA_TILE; u++) at[u] = places[u] != RK_CUDA_NONE ? places[u] * dim : 0;
    if (layout == RK_ROWS_F32) {
        const float *rows = (const float *)table->rows + column;
        float4 x[RK_CUDA_TILE];
        for (int u = 0; u < RK_CUDA_TILE; u++) x[u] = *(const float4 *)(rows + at[u]);
        for (int u = 0; u < RK_CUDA_TILE; u++)
            v[u][0] = x[u].x, v[u][1] = x[u].y, v[u][2] = x[u].z, v[u][3] = x[u].w;
    } else if (layout == RK_ROWS_HALVES) {
        const uint16_t *rows = (const uint16_t *)table->rows + column;
        uint2 x[RK_CUDA_TILE];
        for (int u = 0; u < RK_CUDA_TILE; u++) x[u] = *(const uint2 *)(rows + at[u]);
        for (int u = 0; u < RK_CUDA_TILE; u++) rk_widen_halves(table->dtype, x[u], v[u]);
    } else {
        for (int u = 0; u < RK_CUDA_TILE; u++)
            rk_load_strip(table, table->rows, places[u] != RK_CUDA_NONE ? places[u] : 0, column, v[u]);
    }
}

/* The same of f32 values of the device: activations, gradients, slots, partial sums. `aligned`: to 16
 * bytes. */
__device__ static inline void rk_load_floats(const float *row, int32_t column, int32_t dim, bool aligned,
                                             float v[4]) {
    v[0] = v[1] = v[2] = v[3] = 0;
    if (column >= dim) return;
    if (aligned) {
        float4 x = *(const float4 *)(row + column);
        v[0] = x.x, v[1] = x.y, v[2] = x.z, v[3] = x.w;
    } else {
        for (int32_t j = 0; j < 4 && column + j < dim; j++) v[j] = row[column + j];
    }
}

__device__ static inline void rk_store_floats(float *row, int32_t column, int32_t dim, bool aligned,
                                              const float v[4]) {
    if (column >= dim) return;
    if (aligned)
        *(float4 *)(row + column) = make_float4(v[0], v[1], v[2], v[3]);
    else
        for (int32_t j = 0; j < 4 && column + j < dim; j++) row[column + j] = v[j];
}

/* The tile that number t, below n_tiles, stands for: sample by sample where features have as many tiles, not
 * feature by feature, so that what is written or read of a sample's columns at one time lies together. */
__device__ static inline uint32_t rk_tile_of_number(const rk_cuda_batch *batch, uint32_t t) {
    uint32_t n = batch->n_tiles / batch->n_features;
    return t < n * batch->n_features ? t % batch->n_features * n + t / batch->n_features : t;
}

/* The last of n whose beginnings, in ascending order, are at or before `place`: whose place it is, since
 * those that have none begin where the next ones do. */
template <typename begin_of>
__device__ static inline uint32_t rk_find_last_begin_up_to(uint32_t n, uint64_t place, begin_of begin) {
    uint32_t low = 0, high = n;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (begin(middle) <= place)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The feature that a tile of the lookup is of. */
__device__ static inline uint32_t rk_tile_feature(const rk_cuda_batch *batch, uint32_t tile) {
    return rk_find_last_begin_up_to(batch->n_features, tile,
                                    [batch](uint32_t f) { return batch->feature_ids[f].first_tile; });
}

/* Sums of n chunks, from the batch's partial `first` on, to sum: in order, four under way, since a hot row
 * has many. */
__device__ static inline void rk_add_sums_of_chunks(const rk_cuda_batch *batch, uint32_t first, uint32_t n,
                                                    int32_t column, float sum[4]) {
    enum { AHEAD = 4 };
    const float *from = batch->partials + (uint64_t)first * (uint32_t)batch->width;
    for (uint32_t c = 0; c < n; c += AHEAD) {
        float parts[AHEAD][4];
        for (uint32_t u = 0; u < AHEAD; u++)
            if (c + u < n)
                rk_load_floats(from + (uint64_t)(c + u) * (uint32_t)batch->width, column, batch->width, true,
                               parts[u]);
        for (uint32_t u = 0; u < AHEAD; u++)
            for (int j = 0; j < 4 && c + u < n; j++) sum[j] += parts[u][j];
    }
}

/* The sum over the groups of a warp of what lane l of each has, in a fixed order; in all groups. */
__device__ static inline void rk_sum_over_groups(float v[4], uint32_t class_) {
    for (uint32_t width = 1u << class_; width < RK_WARP; width *= 2)
        for (int j = 0; j < 4; j++) v[j] += __shfl_xor_sync(RK_FULL_WARP, v[j], (int)width);
}

#endif
