/* rk_cuda_flag_gradients_not_finite: whether all gradients of rows that are trained are finite numbers.
 *
 *     for each feature f of a table that is checked, for each bag b of it:
 *         where a gradient of the bag is not finite: *stop |= RK_CUDA_STOP_ROWS, and the first such sample is
 *         remembered */
#include "cuda/tables/table_kernel_helpers.h"

#include "cuda/dense/dense_optimizer_step.h"

__device__ static inline bool is_strip_finite(const float v[4]) {
    return fabsf(v[0]) <= FLT_MAX && fabsf(v[1]) <= FLT_MAX && fabsf(v[2]) <= FLT_MAX &&
           fabsf(v[3]) <= FLT_MAX;
}

/* By the lookup's tiles. */
__global__ static void flag_gradients_not_finite_kernel(const rk_cuda_batch *batch,
                                                        const rk_cuda_activation *gradients, uint32_t *stop) {
    uint32_t lane = rk_table_lane_number();
    for (uint32_t t = rk_table_warp_number(); t < batch->n_tiles; t += rk_table_n_warps()) {
        uint32_t tile = rk_tile_of_number(batch, t), number = rk_tile_feature(batch, tile);
        const rk_cuda_table *table = &batch->tables[batch->features[number].table];
        uint32_t class_ = (uint32_t)table->class_, n_groups = RK_WARP >> class_,
                 length = (uint32_t)batch->features[number].length;
        const rk_cuda_feature_ids *ids = &batch->feature_ids[number];
        uint32_t bag = (tile - ids->first_tile) * n_groups * RK_CUDA_TILE + (lane >> class_);
        length = length ? length : 1;
        const rk_cuda_activation *from = &gradients[number];
        for (uint32_t u = 0; u < RK_CUDA_TILE && table->checks_finite; u++, bag += n_groups) {
            if (bag >= ids->n * length) break;
            const float *row =
                from->data + bag / length * from->stride + (int64_t)(bag % length) * table->dim;
            for (int32_t column = (int32_t)(lane & ((1u << class_) - 1)) * 4; column < table->dim;
                 column += 4 << class_) {
                float v[4];
                rk_load_floats(row, column, table->dim, from->is_aligned, v);
                if (is_strip_finite(v)) continue;
                atomicOr(stop, (uint32_t)RK_CUDA_STOP_ROWS);
                atomicMax(&batch->counts->bad_gradient, ~(ids->first_sample + bag / length));
            }
        }
    }
}

extern "C" void rk_cuda_flag_gradients_not_finite(rk_stream *stream, uint32_t n_most,
                                                  const rk_cuda_batch *batch,
                                                  const rk_cuda_activation *gradients, uint32_t *stop) {
    RK_LAUNCH(flag_gradients_not_finite_kernel, rk_table_grid_size(n_most, RK_TABLE_WARPS), RK_TABLE_THREADS,
              0, stream, batch, gradients, stop);
}
