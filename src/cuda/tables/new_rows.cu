/* rk_cuda_create_rows: rows of dynamic tables that a batch is the first to use.
 *
 *     for each new row: the table's row at its place = its first values, its slots = their first value;
 *         the place's key = the row's
 *
 * The first values are the batch's, or a cold row's as it is now. In the order of the steps: the step before
 * may still train on what the place had, and on the cold row. A warp takes a row. */
#include "cuda/tables/table_kernel_helpers.h"

template <typename value>
__device__ static inline void copy_values(value *to, const value *from, int32_t n) {
    for (int32_t i = (int32_t)rk_table_lane_number(); i < n; i += RK_WARP) to[i] = from[i];
}

template <typename value>
__device__ static inline void copy_first_values(const rk_cuda_table *table, const rk_cuda_new_row *row,
                                                const char *new_values) {
    value *rows = (value *)table->rows;
    uint64_t dim = (uint64_t)table->dim;
    const value *from =
        table->has_cold_rows ? rows + row->from * dim : (const value *)(const void *)(new_values + row->from);
    copy_values(rows + row->place * dim, from, table->dim);
}

__device__ static inline void create_row(const rk_cuda_table *table, const rk_cuda_new_row *row,
                                         const char *new_values) {
    uint64_t place = row->place;
    if (table->dtype == RK_F32)
        copy_first_values<float>(table, row, new_values);
    else
        copy_first_values<uint16_t>(table, row, new_values);
    for (int s = 0; s < 2; s++)
        for (int32_t i = (int32_t)rk_table_lane_number(); i < table->slot_widths[s]; i += RK_WARP)
            table->slots[s][place * (uint64_t)table->slot_widths[s] + (uint64_t)i] = table->slot_initial[s];
    if (rk_table_lane_number() == 0) table->keys[place] = row->key;
}

__global__ static void create_rows_kernel(const rk_cuda_batch *batch) {
    for (uint32_t i = rk_table_warp_number(); i < batch->n_new_rows; i += rk_table_n_warps()) {
        const rk_cuda_new_row *row = &batch->new_rows[i];
        create_row(&batch->tables[row->table], row, batch->new_values);
    }
}

extern "C" void rk_cuda_create_rows(rk_stream *stream, uint32_t n_most, const rk_cuda_batch *batch) {
    RK_LAUNCH(create_rows_kernel, rk_table_grid_size(n_most, RK_TABLE_WARPS), RK_TABLE_THREADS, 0, stream,
              batch);
}
