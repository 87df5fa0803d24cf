/* rk_cuda_lookup: all features of a batch.
 *
 *     for each feature f, for each bag b of it:
 *         sum = 0;  for each use i of the bag, in order, that has a row: sum += coefficient * rows[places[i]]
 *         activations[f] of the bag = scale * sum
 *
 * 2^class lanes share a row, four values each: a warp reads 32 / 2^class rows at once, and each group has
 * RK_CUDA_TILE rows under way. Bags of more than RK_CUDA_CHUNK ids are cut: a warp sums a chunk, its groups a
 * part each. Read: a row and 4 bytes (20 with weights) a use; written: 4 dim bytes a bag. */
#include "cuda/tables/table_kernel_helpers.h"

__device__ static inline void add_scaled_strip(float sum[4], const float v[4], float coefficient) {
    for (int j = 0; j < 4; j++) sum[j] += coefficient * v[j];
}

/* Uses begin .. end-1 of one column strip, in order, RK_CUDA_TILE rows under way. */
template <int layout, bool weighted>
__device__ static inline void sum_rows_in_order(const rk_cuda_batch *batch, const rk_cuda_table *table,
                                                uint32_t begin, uint32_t end, int32_t column, float sum[4]) {
    const uint32_t *places_of = batch->places;
    const rk_cuda_use *uses = batch->uses;
    for (uint32_t i = begin; i < end; i += RK_CUDA_TILE) {
        float rows[RK_CUDA_TILE][4], coefficients[RK_CUDA_TILE];
        uint32_t places[RK_CUDA_TILE];
        for (uint32_t u = 0; u < RK_CUDA_TILE; u++) {
            places[u] = i + u < end ? places_of[i + u] : RK_CUDA_NONE;
            coefficients[u] = weighted ? uses[i + u < end ? i + u : begin].coefficient : 1.0f;
        }
        rk_load_strips<layout>(table, places, column, rows);
        for (uint32_t u = 0; u < RK_CUDA_TILE; u++)
            if (places[u] != RK_CUDA_NONE) add_scaled_strip(sum, rows[u], coefficients[u]);
    }
}

template <int layout>
__device__ static inline void sum_rows(const rk_cuda_batch *batch, const rk_cuda_table *table, bool weighted,
                                       uint32_t begin, uint32_t end, int32_t column, float sum[4]) {
    if (weighted)
        sum_rows_in_order<layout, true>(batch, table, begin, end, column, sum);
    else
        sum_rows_in_order<layout, false>(batch, table, begin, end, column, sum);
}

__device__ static inline void sum_rows_of_any_layout(const rk_cuda_batch *batch, const rk_cuda_table *table,
                                                     bool weighted, uint32_t begin, uint32_t end,
                                                     int32_t column, float sum[4]) {
    switch (rk_rows_layout(table)) {
        case RK_ROWS_F32:
            sum_rows<RK_ROWS_F32>(batch, table, weighted, begin, end, column, sum);
            break;
        case RK_ROWS_HALVES:
            sum_rows<RK_ROWS_HALVES>(batch, table, weighted, begin, end, column, sum);
            break;
        default:
            sum_rows<RK_ROWS_ODD>(batch, table, weighted, begin, end, column, sum);
    }
}

__global__ static void sum_bag_chunks_kernel(const rk_cuda_batch *batch) {
    uint32_t lane = rk_table_lane_number();
    for (uint32_t c = rk_table_warp_number(); c < batch->counts->n_bag_chunks; c += rk_table_n_warps()) {
        rk_cuda_chunk chunk = batch->bag_chunks[c];
        const rk_cuda_table *table = &batch->tables[batch->features[chunk.owner].table];
        uint32_t class_ = (uint32_t)table->class_, n_lanes = 1u << class_,
                 n_terms = RK_CUDA_CHUNK >> (5 - class_);
        bool weighted = batch->feature_ids[chunk.owner].first_weight != RK_CUDA_NONE;
        uint32_t begin = chunk.begin + (lane >> class_) * n_terms,
                 end = begin + n_terms < chunk.end ? begin + n_terms : chunk.end;
        int32_t dim = table->dim;
        for (int32_t first = 0; first < dim; first += (int32_t)n_lanes * 4) {
            int32_t column = first + (int32_t)(lane & (n_lanes - 1)) * 4;
            float sum[4] = {0, 0, 0, 0};
            if (column < dim) sum_rows_of_any_layout(batch, table, weighted, begin, end, column, sum);
            rk_sum_over_groups(sum, class_);
            if (lane < n_lanes)
                rk_store_floats(batch->partials + (uint64_t)c * (uint32_t)batch->width, column, dim, true,
                                sum);
        }
    }
}

/* A feature's bags as the lookup sees them. */
typedef struct bags {
    const rk_cuda_batch *batch;
    const rk_cuda_feature_ids *ids;
    const rk_cuda_table *table;
    rk_cuda_activation to;
    uint32_t n, length;
    bool single; /* bag b is use b alone, with the coefficient 1 */
} bags;

__device__ static inline float *find_output_of_bag(const bags *f, uint32_t bag) {
    if (f->length == 1) return f->to.data + bag * f->to.stride;
    return f->to.data + bag / f->length * f->to.stride + (int64_t)(bag % f->length) * f->table->dim;
}

/* Bags bag, bag + step, ...: RK_CUDA_TILE of them, a row each. */
template <int layout>
__device__ static inline void copy_rows(const bags *f, uint32_t bag, uint32_t step, int32_t column) {
    const uint32_t *places_of = f->batch->places + f->ids->first_use;
    float rows[RK_CUDA_TILE][4];
    uint32_t places[RK_CUDA_TILE];
    for (uint32_t u = 0; u < RK_CUDA_TILE; u++)
        places[u] = bag + u * step < f->n ? places_of[bag + u * step] : RK_CUDA_NONE;
    rk_load_strips<layout>(f->table, places, column, rows);
    for (uint32_t u = 0; u < RK_CUDA_TILE; u++) {
        if (places[u] == RK_CUDA_NONE) rows[u][0] = rows[u][1] = rows[u][2] = rows[u][3] = 0;
        if (bag + u * step < f->n)
            rk_store_floats(find_output_of_bag(f, bag + u * step), column, f->table->dim, f->to.is_aligned,
                            rows[u]);
    }
}

template <int layout>
__device__ static inline void sum_bag(const bags *f, uint32_t bag, int32_t column) {
    const rk_cuda_batch *batch = f->batch;
    uint32_t begin = bag * f->ids->ids_per_sample, end = begin + f->ids->ids_per_sample;
    if (f->ids->first_offset != RK_CUDA_NONE) {
        begin = batch->offsets[f->ids->first_offset + bag];
        end = batch->offsets[f->ids->first_offset + bag + 1];
    }
    float sum[4] = {0, 0, 0, 0}, scale = batch->scales[f->ids->first_bag + bag];
    if (end - begin <= RK_CUDA_CHUNK) {
        sum_rows<layout>(batch, f->table, f->ids->first_weight != RK_CUDA_NONE, f->ids->first_use + begin,
                         f->ids->first_use + end, column, sum);
    } else {
        uint32_t partial = batch->bag_partials[f->ids->first_bag + bag],
                 n_chunks = (end - begin + RK_CUDA_CHUNK - 1) / RK_CUDA_CHUNK;
        rk_add_sums_of_chunks(batch, partial, n_chunks, column, sum);
    }
    for (int j = 0; j < 4; j++) sum[j] *= scale;
    rk_store_floats(find_output_of_bag(f, bag), column, f->table->dim, f->to.is_aligned, sum);
}

/* The bags of a tile. */
template <int layout>
__device__ static inline void look_up_tile(const bags *f, uint32_t bag, uint32_t n_groups, uint32_t class_) {
    int32_t dim = f->table->dim;
    for (int32_t column = (int32_t)(rk_table_lane_number() & ((1u << class_) - 1)) * 4; column < dim;
         column += 4 << class_) {
        if (f->single)
            copy_rows<layout>(f, bag, n_groups, column);
        else
            for (uint32_t u = 0; u < RK_CUDA_TILE; u++)
                if (bag + u * n_groups < f->n) sum_bag<layout>(f, bag + u * n_groups, column);
    }
}

__global__ static void __launch_bounds__(RK_TABLE_THREADS, 4)
    look_up_kernel(const rk_cuda_batch *batch, const rk_cuda_activation *to) {
    uint32_t lane = rk_table_lane_number();
    for (uint32_t t = rk_table_warp_number(); t < batch->n_tiles; t += rk_table_n_warps()) {
        uint32_t tile = rk_tile_of_number(batch, t), number = rk_tile_feature(batch, tile);
        const rk_cuda_feature *feature = &batch->features[number];
        bags f = {batch,
                  &batch->feature_ids[number],
                  &batch->tables[feature->table],
                  to[number],
                  0,
                  (uint32_t)(feature->length ? feature->length : 1),
                  false};
        if (!f.to.data) continue; /* the same for the whole warp */
        f.n = f.ids->n * f.length;
        f.single = feature->length || (f.ids->first_offset == RK_CUDA_NONE && f.ids->ids_per_sample == 1 &&
                                       f.ids->first_weight == RK_CUDA_NONE);
        uint32_t class_ = (uint32_t)f.table->class_, n_groups = RK_WARP >> class_;
        uint32_t bag = (tile - f.ids->first_tile) * n_groups * RK_CUDA_TILE + (lane >> class_);
        switch (rk_rows_layout(f.table)) {
            case RK_ROWS_F32:
                look_up_tile<RK_ROWS_F32>(&f, bag, n_groups, class_);
                break;
            case RK_ROWS_HALVES:
                look_up_tile<RK_ROWS_HALVES>(&f, bag, n_groups, class_);
                break;
            default:
                look_up_tile<RK_ROWS_ODD>(&f, bag, n_groups, class_);
        }
    }
}

extern "C" void rk_cuda_lookup(rk_stream *stream, uint32_t n_most_tiles, uint32_t n_most_chunks,
                               const rk_cuda_batch *batch, const rk_cuda_activation *to) {
    RK_LAUNCH(sum_bag_chunks_kernel, rk_chunk_grid_size(n_most_chunks), RK_TABLE_THREADS, 0, stream, batch);
    RK_LAUNCH(look_up_kernel, rk_table_grid_size(n_most_tiles, RK_TABLE_WARPS), RK_TABLE_THREADS, 0, stream,
              batch, to);
}
