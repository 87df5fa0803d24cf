/* rk_cuda_update_rows: one optimizer step of each row that a batch used, fused with the sum of its gradients.
 *
 *     for each segment (a row of a trained table; l2_full tables: rk_cuda_update_all_rows, for all their
 *     rows):
 *         g = 0;  for each of its uses, in the order of the batch: g += coefficient * gradient of its bag
 *         g += (l2 + l2_full) * row;  rk_optimizer_step(row, its slots, g)
 *
 * rk_cuda_sum_row_gradients: each such row becomes its g, the sum alone; for rows that are lent, whose owners
 * take the step.
 *
 * rk_cuda_sum_frequent_rows comes before both: the chunks of rows that are used more than RK_CUDA_CHUNK
 * times.
 *
 * 2^class lanes share a row. Segments of more than RK_CUDA_CHUNK uses are cut: a warp sums a chunk, its
 * groups a part each, and the chunks' sums are then added in order. Nothing is done where *stop != 0 or the
 * batch was refused. Read and written: a row and its slots once each; read: 16 + 4 dim bytes a use. */
#include "cuda/tables/row_strip_update.h"

enum { USES_AHEAD = 4 };

/* What becomes of a row: a step by a rule that needs no sums over the row, or by one that does; or the sum of
 * its gradients. */
typedef enum row_end { STEP, STEP_WITH_SUMS, SUM_ALONE } row_end;

/* One row's step. */
typedef struct row_step {
    const rk_cuda_batch *batch;
    const rk_cuda_activation *gradients;
    const rk_cuda_table *table;
    const rk_cuda_step *step;
    uint64_t place;
    uint32_t begin, end, partial; /* uses */
    bool is_here;                 /* the group has a row at all */
} row_step;

/* Sorted uses i .. i+USES_AHEAD-1; those behind the end are the last one once more, so that no condition
 * stands between the loads. */
__device__ static inline void load_sorted_uses(const rk_cuda_batch *batch, uint32_t i, uint32_t end,
                                               rk_cuda_use uses[USES_AHEAD]) {
    const rk_cuda_use *sorted = batch->sorted_uses;
    for (uint32_t u = 0; u < USES_AHEAD; u++) uses[u] = sorted[i + u < end ? i + u : end - 1];
}

/* Adds the gradients of the first n uses; all are read, side by side, so that USES_AHEAD are under way. */
__device__ static inline void add_gradients_of_uses(const rk_cuda_activation *gradients,
                                                    const rk_cuda_use uses[USES_AHEAD], uint32_t n,
                                                    int32_t column, int32_t dim, float sum[4]) {
    float values[USES_AHEAD][4];
    const float *rows[USES_AHEAD];
    bool aligned = true;
    for (uint32_t u = 0; u < USES_AHEAD; u++) {
        const rk_cuda_activation *from = &gradients[uses[u].feature];
        rows[u] = from->data + uses[u].sample * from->stride + uses[u].column;
        aligned = aligned && from->is_aligned;
    }
    if (aligned)
        for (uint32_t u = 0; u < USES_AHEAD; u++) rk_load_floats(rows[u], column, dim, true, values[u]);
    else
        for (uint32_t u = 0; u < USES_AHEAD; u++) rk_load_floats(rows[u], column, dim, false, values[u]);
    for (uint32_t u = 0; u < USES_AHEAD; u++)
        if (u < n)
            for (int j = 0; j < 4; j++) sum[j] += uses[u].coefficient * values[u][j];
}

/* Sorted uses i .. end-1, of which there are some, in order; the first ones have been taken. */
__device__ static inline void sum_gradients_of_uses(const rk_cuda_batch *batch,
                                                    const rk_cuda_activation *gradients, uint32_t i,
                                                    uint32_t end, rk_cuda_use uses[USES_AHEAD],
                                                    int32_t column, int32_t dim, float sum[4]) {
    for (;;) {
        add_gradients_of_uses(gradients, uses, end - i, column, dim, sum);
        i += USES_AHEAD;
        if (i >= end) return;
        load_sorted_uses(batch, i, end, uses);
    }
}

__device__ static inline bool is_update_stopped(const rk_cuda_batch *batch, const uint32_t *stop) {
    return (stop && *stop) || rk_batch_is_refused(batch);
}

__global__ static void sum_use_chunks_kernel(const rk_cuda_batch *batch, const rk_cuda_activation *gradients,
                                             const uint32_t *stop) {
    if (is_update_stopped(batch, stop)) return;
    uint32_t lane = rk_table_lane_number();
    for (uint32_t c = rk_table_warp_number(); c < batch->counts->n_use_chunks; c += rk_table_n_warps()) {
        rk_cuda_chunk chunk = batch->use_chunks[c];
        uint32_t class_ = (uint32_t)batch->tables[chunk.owner].class_, n_lanes = 1u << class_,
                 n_terms = RK_CUDA_CHUNK >> (5 - class_);
        uint32_t begin = chunk.begin + (lane >> class_) * n_terms,
                 end = begin + n_terms < chunk.end ? begin + n_terms : chunk.end;
        int32_t dim = batch->tables[chunk.owner].dim;
        for (int32_t first = 0; first < dim; first += (int32_t)n_lanes * 4) {
            int32_t column = first + (int32_t)(lane & (n_lanes - 1)) * 4;
            float sum[4] = {0, 0, 0, 0};
            if (column < dim && begin < end) {
                rk_cuda_use uses[USES_AHEAD];
                load_sorted_uses(batch, begin, end, uses);
                sum_gradients_of_uses(batch, gradients, begin, end, uses, column, dim, sum);
            }
            rk_sum_over_groups(sum, class_);
            if (lane < n_lanes)
                rk_store_floats(batch->partials + (uint64_t)c * (uint32_t)batch->width, column, dim, true,
                                sum);
        }
    }
}

__device__ static inline void sum_gradients_of_row(const row_step *r, rk_cuda_use uses[USES_AHEAD],
                                                   rk_strip *s) {
    const rk_cuda_batch *batch = r->batch;
    uint32_t n_uses = r->end - r->begin, n_chunks = (n_uses + RK_CUDA_CHUNK - 1) / RK_CUDA_CHUNK;
    for (int j = 0; j < 4; j++) s->g[j] = 0;
    if (n_uses <= RK_CUDA_CHUNK) {
        if (s->n && n_uses)
            sum_gradients_of_uses(batch, r->gradients, r->begin, r->end, uses, s->column, r->table->dim,
                                  s->g);
        return;
    }
    if (s->n) rk_add_sums_of_chunks(batch, r->partial, n_chunks, s->column, s->g);
}

/* Uses are asked for before the row: in the machine code loads share counters, and a wait for what was asked
 * for later is one for all. */
__device__ static inline void load_strip_and_gradient(const row_step *r, int32_t column, rk_strip *s) {
    const rk_cuda_step *step = r->step;
    rk_cuda_use uses[USES_AHEAD];
    if (r->begin < r->end) load_sorted_uses(r->batch, r->begin, r->end, uses);
    rk_strip_load(r->table, &step->update, r->place, column, s);
    sum_gradients_of_row(r, uses, s);
    rk_strip_decay_and_clip(&step->update, step->l2_full + (r->begin < r->end ? step->l2 : 0), s);
}

/* Rules that need no sums over the row: a strip at a time. */
__device__ static inline void update_values_without_sums(const row_step *r, uint32_t class_) {
    int32_t first = (int32_t)(rk_table_lane_number() & ((1u << class_) - 1)) * 4;
    const rk_update *u = &r->step->update;
    uint64_t row = rk_row_number_or_key(r->table, r->place);
    for (int32_t column = first; column < r->table->dim; column += 4 << class_) {
        rk_strip s;
        load_strip_and_gradient(r, column, &s);
        apply_rule_to_row(u, s.w, s.slots[0], s.slots[1], s.g, RK_STRIP);
        rk_strip_store(r->table, u, r->place, row, r->step->seed, &s);
    }
}

/* Sums over the rows of a warp's groups, of which those that are not here have none. The strip that is left
 * in *s is the row's only one if it has one. */
__device__ static inline rk_row_sums sum_squares_of_row(const row_step *r, uint32_t class_, rk_strip *s) {
    int32_t first = (int32_t)(rk_table_lane_number() & ((1u << class_) - 1)) * 4;
    float w16[4] = {0, 0, 0, 0}, g16[4] = {0, 0, 0, 0}, steps16[4] = {0, 0, 0, 0};
    for (int32_t at = 0; at == 0 || at < r->table->dim; at += 4 << class_) {
        float w[4] = {0, 0, 0, 0}, g[4] = {0, 0, 0, 0}, steps[4] = {0, 0, 0, 0};
        if (r->is_here) {
            load_strip_and_gradient(r, at + first, s);
            rk_strip_compute_squares(&r->step->update, s, w, g, steps);
        }
        rk_add_to_lane_sums(w16, w, class_);
        rk_add_to_lane_sums(g16, g, class_);
        rk_add_to_lane_sums(steps16, steps, class_);
    }
    rk_row_sums sums = {rk_reduce_lane_sums(w16, class_), rk_reduce_lane_sums(g16, class_),
                        rk_reduce_lane_sums(steps16, class_)};
    return sums;
}

/* Rules that need sums over the row: its strips are gone through twice, where they are several. */
__device__ static inline void update_values_with_sums(const row_step *r, uint32_t class_) {
    int32_t first = (int32_t)(rk_table_lane_number() & ((1u << class_) - 1)) * 4, width = 4 << class_;
    const rk_update *u = &r->step->update;
    int row_slot = r->is_here ? rk_find_rowwise_slot(u) : -1;
    float before = row_slot >= 0 ? r->table->slots[row_slot][r->place] : 0, after = before;
    rk_strip s;
    rk_row_sums sums = sum_squares_of_row(r, class_, &s);
    __syncwarp(); /* all lanes have read `before` */
    if (!r->is_here) return;
    uint64_t row = rk_row_number_or_key(r->table, r->place);
    for (int32_t at = 0; at < r->table->dim; at += width) {
        if (r->table->dim > width) load_strip_and_gradient(r, at + first, &s);
        after = rk_strip_apply_rule_with_sums(u, &sums, before, r->table->dim, &s);
        rk_strip_store(r->table, u, r->place, row, r->step->seed, &s);
    }
    if (row_slot >= 0 && first == 0) r->table->slots[row_slot][r->place] = after;
}

__device__ static inline void write_gradient_sums(const row_step *r, uint32_t class_) {
    int32_t first = (int32_t)(rk_table_lane_number() & ((1u << class_) - 1)) * 4, dim = r->table->dim;
    for (int32_t column = first; column < dim; column += 4 << class_) {
        rk_cuda_use uses[USES_AHEAD];
        rk_strip s;
        s.column = column;
        s.n = dim - column < RK_STRIP ? dim - column : RK_STRIP;
        load_sorted_uses(r->batch, r->begin, r->end, uses);
        sum_gradients_of_row(r, uses, &s);
        rk_store_floats((float *)r->table->rows + r->place * (uint64_t)dim, column, dim, dim % 4 == 0, s.g);
    }
}

/* All lanes of the warp come here, a row or none for each group of 2^class_. */
template <row_end end>
__device__ static inline void update_row(const row_step *r, uint32_t class_) {
    if (end == STEP_WITH_SUMS)
        update_values_with_sums(r, class_);
    else if (r->is_here && end == STEP)
        update_values_without_sums(r, class_);
    else if (r->is_here)
        write_gradient_sums(r, class_);
}

template <row_end end>
__device__ static inline bool is_table_updated(const rk_cuda_table *table, const rk_cuda_step *step) {
    return table->is_trained &&
           (end == SUM_ALONE ||
            (step->l2_full == 0 && rk_cuda_needs_sums(step->update.kind) == (end == STEP_WITH_SUMS)));
}

__device__ static inline row_step make_row_step(const rk_cuda_batch *batch,
                                                const rk_cuda_activation *gradients,
                                                const rk_cuda_step *steps, uint32_t table) {
    row_step r = {batch,        gradients, &batch->tables[table], steps ? &steps[table] : NULL, 0, 0, 0,
                  RK_CUDA_NONE, false};
    return r;
}

__device__ static inline void set_segment_of_step(row_step *r, const rk_cuda_segment *segment) {
    r->place = segment->place;
    r->begin = segment->begin;
    r->end = segment[1].begin;
    r->partial = segment->partial;
}

/* A warp's rows are of one class. */
template <row_end end>
__global__ static void __launch_bounds__(RK_TABLE_THREADS, end == STEP_WITH_SUMS ? 2 : 3)
    update_rows_kernel(const rk_cuda_batch *batch, const rk_cuda_step *steps,
                       const rk_cuda_activation *gradients, const uint32_t *stop) {
    if (is_update_stopped(batch, stop)) return;
    const uint32_t *begins = batch->counts->class_segments;
    uint32_t warp = rk_table_warp_number(), n_before = 0;
    for (uint32_t class_ = 0; class_ < RK_CUDA_CLASSES; class_++) {
        uint32_t n_groups = RK_WARP >> class_,
                 n_warps = (begins[class_ + 1] - begins[class_] + n_groups - 1) / n_groups;
        for (; warp < n_before + n_warps; warp += rk_table_n_warps()) {
            uint32_t number =
                begins[class_] + (warp - n_before) * n_groups + (rk_table_lane_number() >> class_);
            bool is_here = number < begins[class_ + 1];
            const rk_cuda_segment *segment = &batch->segments[is_here ? number : begins[class_]];
            row_step r = make_row_step(batch, gradients, steps, segment->table);
            r.is_here = is_here && is_table_updated<end>(r.table, r.step);
            if (r.is_here) set_segment_of_step(&r, segment);
            update_row<end>(&r, class_);
        }
        n_before += n_warps;
    }
}

/* The segment of a row among those of its class, which are sorted by table and place; NULL: the batch does
 * not use it. */
__device__ static inline const rk_cuda_segment *find_segment(const rk_cuda_batch *batch, uint32_t table,
                                                             uint32_t place) {
    const uint32_t *begins = batch->counts->class_segments + batch->tables[table].class_;
    uint32_t low = begins[0], high = begins[1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const rk_cuda_segment *s = &batch->segments[middle];
        if (s->table < table || (s->table == table && s->place < place))
            low = middle + 1;
        else
            high = middle;
    }
    const rk_cuda_segment *s = &batch->segments[low];
    return low < begins[1] && s->table == table && s->place == place ? s : NULL;
}

/* Every row of a table takes a step, those that the batch does not use with l2_full * row as gradient. */
template <row_end end>
__global__ static void update_all_rows_kernel(const rk_cuda_batch *batch, uint32_t table,
                                              const rk_cuda_step *steps, const rk_cuda_activation *gradients,
                                              const uint32_t *stop) {
    if (is_update_stopped(batch, stop)) return;
    uint32_t class_ = (uint32_t)batch->tables[table].class_, n_groups = RK_WARP >> class_;
    uint64_t n_rows = batch->tables[table].n_rows;
    for (uint64_t first = (uint64_t)rk_table_warp_number() * n_groups; first < n_rows;
         first += (uint64_t)rk_table_n_warps() * n_groups) {
        row_step r = make_row_step(batch, gradients, steps, table);
        r.place = first + (rk_table_lane_number() >> class_);
        r.is_here = r.place < n_rows;
        const rk_cuda_segment *segment = r.is_here ? find_segment(batch, table, (uint32_t)r.place) : NULL;
        if (segment) set_segment_of_step(&r, segment);
        update_row<end>(&r, class_);
    }
}

extern "C" void rk_cuda_sum_frequent_rows(rk_stream *stream, uint32_t n_most_chunks,
                                          const rk_cuda_batch *batch, const rk_cuda_activation *gradients,
                                          const uint32_t *stop) {
    RK_LAUNCH(sum_use_chunks_kernel, rk_chunk_grid_size(n_most_chunks), RK_TABLE_THREADS, 0, stream, batch,
              gradients, stop);
}

extern "C" void rk_cuda_update_rows(rk_stream *stream, uint32_t n_most, bool sums, const rk_cuda_batch *batch,
                                    const rk_cuda_step *steps, const rk_cuda_activation *gradients,
                                    const uint32_t *stop) {
    uint32_t blocks = rk_table_resident_grid_size(stream, n_most, RK_TABLE_WARPS, sums ? 2 : 3);
    if (sums)
        RK_LAUNCH((update_rows_kernel<STEP_WITH_SUMS>), blocks, RK_TABLE_THREADS, 0, stream, batch, steps,
                  gradients, stop);
    else
        RK_LAUNCH((update_rows_kernel<STEP>), blocks, RK_TABLE_THREADS, 0, stream, batch, steps, gradients,
                  stop);
}

extern "C" void rk_cuda_sum_row_gradients(rk_stream *stream, uint32_t n_most, const rk_cuda_batch *batch,
                                          const rk_cuda_activation *gradients) {
    const rk_cuda_step *no_steps = NULL;
    const uint32_t *no_stop = NULL;
    RK_LAUNCH((update_rows_kernel<SUM_ALONE>), rk_table_grid_size(n_most, RK_TABLE_WARPS), RK_TABLE_THREADS,
              0, stream, batch, no_steps, gradients, no_stop);
}

extern "C" void rk_cuda_update_all_rows(rk_stream *stream, uint64_t n_rows, bool sums,
                                        const rk_cuda_batch *batch, uint32_t table, const rk_cuda_step *steps,
                                        const rk_cuda_activation *gradients, const uint32_t *stop) {
    uint32_t blocks = rk_table_grid_size(n_rows, RK_TABLE_WARPS);
    if (sums)
        RK_LAUNCH((update_all_rows_kernel<STEP_WITH_SUMS>), blocks, RK_TABLE_THREADS, 0, stream, batch, table,
                  steps, gradients, stop);
    else
        RK_LAUNCH((update_all_rows_kernel<STEP>), blocks, RK_TABLE_THREADS, 0, stream, batch, table, steps,
                  gradients, stop);
}
