/* The sorted uses of a batch cut into segments, one a row.
 *
 * rk_cuda_mark_segments:   heads[p] = sorted_keys[p] is a row's, and not that of sorted_keys[p-1]
 * rk_cuda_make_segments:   (numbers: the running sum of heads)
 *     for each p: sorted_uses[p] = uses[sorted[p]];  where heads[p]: segments[numbers[p] - 1] = the row, from
 *     p on
 *     for each segment of more than RK_CUDA_CHUNK uses: its chunks */
#include "cuda/tables/table_kernel_helpers.h"

__global__ static void mark_segments_kernel(const rk_cuda_batch *batch) {
    for (uint32_t p = rk_table_thread_number(); p < batch->n_uses; p += rk_table_n_threads()) {
        uint64_t key = rk_sorted_key(batch, p);
        batch->heads[p] = key != batch->none_key && (p == 0 || key != rk_sorted_key(batch, p - 1));
    }
}

/* The table of a key. */
__device__ static inline uint32_t table_of_key(const rk_cuda_batch *batch, uint64_t key) {
    return rk_find_last_begin_up_to(batch->n_tables, key,
                                    [batch](uint32_t t) { return batch->tables[t].first_key; });
}

/* Classes after `before` up to `last` begin at segment s. */
__device__ static inline void set_begin_of_width_classes(rk_cuda_counts *counts, int before, int last,
                                                         uint32_t s) {
    for (int c = before + 1; c <= last; c++) counts->class_segments[c] = s;
}

__device__ static inline void make_segment(const rk_cuda_batch *batch, uint32_t p) {
    uint64_t key = rk_sorted_key(batch, p);
    uint32_t t = table_of_key(batch, key), number = batch->numbers[p] - 1;
    const rk_cuda_table *table = &batch->tables[t];
    int before = p == 0 ? -1 : batch->tables[table_of_key(batch, rk_sorted_key(batch, p - 1))].class_;
    rk_cuda_segment segment = {p, t, table->frames ? RK_CUDA_NONE : (uint32_t)(key - table->first_key),
                               RK_CUDA_NONE};
    batch->segments[number] = segment;
    set_begin_of_width_classes(batch->counts, before, table->class_, number);
}

__device__ static inline void end_segments(const rk_cuda_batch *batch, uint32_t p) {
    uint32_t n = batch->numbers[p];
    batch->counts->n_segments = n;
    batch->segments[n].begin = p + 1;
    set_begin_of_width_classes(batch->counts,
                               batch->tables[table_of_key(batch, rk_sorted_key(batch, p))].class_,
                               RK_CUDA_CLASSES, n);
}

__global__ static void make_segments_kernel(const rk_cuda_batch *batch) {
    for (uint32_t p = rk_table_thread_number(); p < batch->n_uses; p += rk_table_n_threads()) {
        if (rk_sorted_key(batch, p) == batch->none_key) continue;
        batch->sorted_uses[p] = batch->uses[batch->sorted[p]];
        if (batch->heads[p]) make_segment(batch, p);
        if (p + 1 == batch->n_uses || rk_sorted_key(batch, p + 1) == batch->none_key) end_segments(batch, p);
    }
}

__global__ static void split_long_segments_into_chunks_kernel(const rk_cuda_batch *batch) {
    for (uint32_t s = rk_table_thread_number(); s < batch->counts->n_segments; s += rk_table_n_threads()) {
        rk_cuda_segment *segment = &batch->segments[s];
        uint32_t end = segment[1].begin, n = end - segment->begin,
                 n_chunks = (n + RK_CUDA_CHUNK - 1) / RK_CUDA_CHUNK;
        if (n <= RK_CUDA_CHUNK || !batch->tables[segment->table].is_trained) continue;
        segment->partial = atomicAdd(&batch->counts->n_use_chunks, n_chunks);
        for (uint32_t c = 0; c < n_chunks; c++) {
            uint32_t begin = segment->begin + c * RK_CUDA_CHUNK;
            rk_cuda_chunk chunk = {begin, begin + RK_CUDA_CHUNK < end ? begin + RK_CUDA_CHUNK : end,
                                   segment->table};
            batch->use_chunks[segment->partial + c] = chunk;
        }
    }
}

extern "C" void rk_cuda_mark_segments(rk_stream *stream, uint32_t n_most, const rk_cuda_batch *batch) {
    RK_LAUNCH(mark_segments_kernel, rk_table_grid_size(n_most, RK_TABLE_THREADS), RK_TABLE_THREADS, 0, stream,
              batch);
}

extern "C" void rk_cuda_make_segments(rk_stream *stream, uint32_t n_most, const rk_cuda_batch *batch) {
    uint32_t blocks = rk_table_grid_size(n_most, RK_TABLE_THREADS);
    RK_LAUNCH(make_segments_kernel, blocks, RK_TABLE_THREADS, 0, stream, batch);
    RK_LAUNCH(split_long_segments_into_chunks_kernel, blocks, RK_TABLE_THREADS, 0, stream, batch);
}
