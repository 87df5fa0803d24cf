/* Caches of rows whose home is the host's memory: RK_CUDA_WAYS places a set, the least recently used one
 * makes room.
 *
 * rk_cuda_find_rows_in_caches: for each set that a batch's segments are of, by one warp:
 *         segments whose row is there get its place, which is the batch's from now on
 *         each other one, in order, gets the place that was used longest ago (the first of them), unless that
 *         was by a batch that is under way: then the cache is too small
 * rk_cuda_fill_caches_from_host: for each row that found a place: the place's old row goes home if it was
 * updated, the new one comes.  places[use] = place of its segment rk_cuda_write_back_cache: updated rows of
 * one table go home; or, `invalidate`: the cache is emptied as it is */
#include "cuda/tables/table_kernel_helpers.h"

__device__ static inline uint64_t row_of_key(const rk_cuda_table *table, uint64_t key) {
    uint64_t local = key - table->first_key;
    return local % table->n_tags * table->n_sets + local / table->n_tags;
}

__device__ static inline uint64_t set_of_segment(const rk_cuda_batch *batch, const rk_cuda_table *table,
                                                 uint32_t s) {
    return (rk_sorted_key(batch, batch->segments[s].begin) - table->first_key) / table->n_tags;
}

/* Whether segment s is the first of its set. */
__device__ static inline bool is_first_segment_of_set(const rk_cuda_batch *batch, uint32_t s) {
    uint32_t t = batch->segments[s].table;
    const rk_cuda_table *table = &batch->tables[t];
    if (!table->frames) return false;
    return s == 0 || batch->segments[s - 1].table != t ||
           set_of_segment(batch, table, s - 1) != set_of_segment(batch, table, s);
}

/* A set as one lane of its warp sees it: with one of its ways. */
typedef struct cache_set {
    const rk_cuda_batch *batch;
    const rk_cuda_table *table;
    uint32_t table_number, first; /* the first segment of the set */
    uint64_t set, place;          /* of the first way */
    bool updates;
    rk_cuda_frame frame;
} cache_set;

__device__ static inline bool is_segment_of_set(const cache_set *c, uint32_t s) {
    return s < c->batch->counts->n_segments && c->batch->segments[s].table == c->table_number &&
           set_of_segment(c->batch, c->table, s) == c->set;
}

__device__ static inline uint64_t row_of_segment(const cache_set *c, uint32_t s) {
    return row_of_key(c->table, rk_sorted_key(c->batch, c->batch->segments[s].begin));
}

/* The way that was used longest ago, ways alike: the first; in all lanes. */
__device__ static inline uint32_t least_recently_used_way(uint32_t batch_number) {
    uint64_t best = (uint64_t)batch_number << 32 | rk_table_lane_number();
    for (int width = RK_WARP / 2; width; width /= 2) {
        uint32_t high = __shfl_xor_sync(RK_FULL_WARP, (uint32_t)(best >> 32), width),
                 low = __shfl_xor_sync(RK_FULL_WARP, (uint32_t)best, width);
        uint64_t other = (uint64_t)high << 32 | low;
        best = other < best ? other : best;
    }
    return (uint32_t)best;
}

/* Of the batch's rows that are there the way becomes the batch's; returns how many are missing. */
__device__ static inline uint32_t find_cached_rows(cache_set *c) {
    uint32_t lane = rk_table_lane_number(), n_missing = 0;
    for (uint32_t s = c->first; is_segment_of_set(c, s); s++) {
        uint32_t hits = __ballot_sync(RK_FULL_WARP, c->frame.row == row_of_segment(c, s) + 1);
        if (!hits) n_missing++;
        if (!hits || lane != (uint32_t)__ffs((int)hits) - 1) continue;
        c->batch->segments[s].place = (uint32_t)(c->place + lane);
        c->frame.batch = c->batch->number;
        c->frame.is_dirty |= c->updates;
    }
    __syncwarp();
    return n_missing;
}

/* The cache is too small: how many ways the set would need. */
__device__ static inline void report_cache_too_small(const cache_set *c, uint32_t n_missing) {
    uint32_t n_kept = (uint32_t)__popc(__ballot_sync(RK_FULL_WARP, c->frame.batch >= c->batch->oldest));
    if (rk_table_lane_number()) return;
    atomicMax(&c->batch->counts->short_table, c->table_number + 1);
    atomicMax(&c->batch->counts->short_ways, n_kept + n_missing);
}

/* This lane's way becomes the row's of segment s. */
__device__ static inline void assign_way_to_segment(cache_set *c, uint32_t s) {
    uint64_t row = row_of_segment(c, s);
    uint32_t place = (uint32_t)(c->place + rk_table_lane_number());
    rk_cuda_fill fill = {row, c->frame.is_dirty ? c->frame.row : 0, c->table_number, place};
    c->batch->fills[atomicAdd(&c->batch->counts->n_fills, 1u)] = fill;
    c->batch->segments[s].place = place;
    rk_cuda_frame frame = {row + 1, c->batch->number, c->updates};
    c->frame = frame;
}

/* A warp, a lane each way, for the set that segment `first` begins. */
__device__ static inline void assign_ways_of_set(const rk_cuda_batch *batch, uint32_t first) {
    uint32_t t = batch->segments[first].table, lane = rk_table_lane_number();
    const rk_cuda_table *table = &batch->tables[t];
    uint64_t set = set_of_segment(batch, table, first), place = set * RK_CUDA_WAYS;
    cache_set c = {batch,
                   table,
                   t,
                   first,
                   set,
                   place,
                   batch->training && table->is_trained,
                   table->frames[place + lane]};
    uint32_t n_missing = find_cached_rows(&c);
    for (uint32_t s = first; n_missing; s++) {
        if (batch->segments[s].place != RK_CUDA_NONE) continue;
        uint32_t way = least_recently_used_way(c.frame.batch);
        if (__shfl_sync(RK_FULL_WARP, c.frame.batch, (int)way) >= batch->oldest) {
            report_cache_too_small(&c, n_missing);
            break;
        }
        if (lane == way) assign_way_to_segment(&c, s);
        n_missing--;
        __syncwarp();
    }
    table->frames[place + lane] = c.frame;
}

__global__ static void find_rows_in_caches_kernel(const rk_cuda_batch *batch) {
    for (uint32_t s = rk_table_warp_number(); s < batch->counts->n_segments; s += rk_table_n_warps())
        if (is_first_segment_of_set(batch, s)) assign_ways_of_set(batch, s);
}

/* n_bytes, by a warp; 16 at a time where they come out even. */
__device__ static inline void copy_bytes(void *to, const void *from, uint64_t n_bytes) {
    uint32_t lane = rk_table_lane_number();
    if (n_bytes % 16 == 0)
        for (uint64_t i = lane; i < n_bytes / 16; i += RK_WARP) ((uint4 *)to)[i] = ((const uint4 *)from)[i];
    else
        for (uint64_t i = lane; i < n_bytes / 2; i += RK_WARP)
            ((uint16_t *)to)[i] = ((const uint16_t *)from)[i];
}

/* A row and its slots, between the host's memory and a place of the cache. */
__device__ static inline void copy_row_to_or_from_host(const rk_cuda_table *t, uint64_t row, uint64_t place,
                                                       bool home) {
    uint64_t row_bytes = (uint64_t)t->dim * (t->dtype == RK_F32 ? 4 : 2);
    char *at_home = (char *)t->home_rows + row * row_bytes, *here = (char *)t->rows + place * row_bytes;
    copy_bytes(home ? at_home : here, home ? here : at_home, row_bytes);
    for (int i = 0; i < 2; i++) {
        if (!t->slots[i]) continue;
        uint64_t width = (uint64_t)t->slot_widths[i];
        float *slot_home = t->home_slots[i] + row * width, *slot_here = t->slots[i] + place * width;
        copy_bytes(home ? slot_home : slot_here, home ? slot_here : slot_home, width * sizeof(float));
    }
}

__global__ static void fill_caches_kernel(const rk_cuda_batch *batch) {
    for (uint32_t f = rk_table_warp_number(); f < batch->counts->n_fills; f += rk_table_n_warps()) {
        rk_cuda_fill fill = batch->fills[f];
        const rk_cuda_table *table = &batch->tables[fill.table];
        if (fill.old_row) copy_row_to_or_from_host(table, fill.old_row - 1, fill.place, true);
        __syncwarp();
        copy_row_to_or_from_host(table, fill.row, fill.place, false);
    }
}

__global__ static void set_places_of_uses_kernel(const rk_cuda_batch *batch) {
    for (uint32_t p = rk_table_thread_number(); p < batch->n_uses; p += rk_table_n_threads()) {
        if (rk_sorted_key(batch, p) == batch->none_key) continue;
        const rk_cuda_segment *segment = &batch->segments[batch->numbers[p] - 1];
        if (batch->tables[segment->table].frames) batch->places[batch->sorted[p]] = segment->place;
    }
}

__global__ static void write_back_cache_kernel(const rk_cuda_table *tables, uint32_t number,
                                               bool invalidate) {
    const rk_cuda_table *table = &tables[number];
    for (uint64_t place = rk_table_warp_number(); place < table->n_places; place += rk_table_n_warps()) {
        rk_cuda_frame frame = table->frames[place];
        if (frame.is_dirty && !invalidate) copy_row_to_or_from_host(table, frame.row - 1, place, true);
        __syncwarp();
        if (rk_table_lane_number()) continue;
        frame.is_dirty = 0;
        if (invalidate) frame.row = frame.batch = 0;
        table->frames[place] = frame;
    }
}

extern "C" void rk_cuda_find_rows_in_caches(rk_stream *stream, uint32_t n_most, const rk_cuda_batch *batch) {
    RK_LAUNCH(find_rows_in_caches_kernel, rk_table_grid_size(n_most, RK_TABLE_WARPS), RK_TABLE_THREADS, 0,
              stream, batch);
}

extern "C" void rk_cuda_fill_caches_from_host(rk_stream *stream, uint32_t n_most,
                                              const rk_cuda_batch *batch) {
    RK_LAUNCH(fill_caches_kernel, rk_table_grid_size(n_most, RK_TABLE_WARPS), RK_TABLE_THREADS, 0, stream,
              batch);
    RK_LAUNCH(set_places_of_uses_kernel, rk_table_grid_size(n_most, RK_TABLE_THREADS), RK_TABLE_THREADS, 0,
              stream, batch);
}

extern "C" void rk_cuda_write_back_cache(rk_stream *stream, const rk_cuda_table *tables, uint32_t table,
                                         uint64_t n_places, bool invalidate) {
    RK_LAUNCH(write_back_cache_kernel, rk_table_grid_size(n_places, RK_TABLE_WARPS), RK_TABLE_THREADS, 0,
              stream, tables, table, invalidate);
}
