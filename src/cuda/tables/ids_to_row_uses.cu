/* rk_cuda_ids_to_row_uses: a batch's ids checked, and each use of a row named.
 *
 *     for each feature f, for each sample s, for its ids i in order:
 *         an id that is refused: remember the first of all;  one that is dropped: place RK_CUDA_NONE
 *         else: place = the row, coefficient = 1 or the weight, over the combiner's divisor of what the bag
 *         keeps
 *     of a sequence: the first `length` ids that are kept take a position each; other positions have no row
 *
 * The weights of a sample's few ids are added up by one thread, in f64 and in order; then the warp writes the
 * uses of its 32 samples side by side, so that what it writes lies together. A warp takes a sample of many
 * ids alone, and adds its weights up in 32 stripes. */
#include "cuda/tables/table_kernel_helpers.h"

enum { ALONE_IDS = 64, ALONE_POSITIONS = 8 };

/* A sample of a feature. */
typedef struct sample_ids {
    const rk_cuda_batch *batch;
    const rk_cuda_feature *feature;
    const rk_cuda_feature_ids *ids;
    const rk_cuda_table *table;
    uint32_t number, sample; /* of the feature; in it */
    uint32_t begin, end;     /* ids */
} sample_ids;

/* What a bag keeps. */
typedef struct weight_sums {
    uint32_t n_kept;
    double below; /* sum w, or w^2 */
} weight_sums;

/* What an id's weight becomes: unweighted ids of a bag have the same coefficient. */
typedef struct bag_coefficient {
    float scale;
    double below;
} bag_coefficient;

typedef enum id_status { KEPT, DROPPED, REFUSED } id_status;

/* The feature of a sample among those of all features. */
__device__ static inline uint32_t feature_of(const rk_cuda_batch *batch, uint32_t item) {
    return rk_find_last_begin_up_to(batch->n_features, item,
                                    [batch](uint32_t f) { return batch->feature_ids[f].first_sample; });
}

/* All but the ids, which take a load more. */
__device__ static inline sample_ids sample_of_feature(const rk_cuda_batch *batch, uint32_t feature,
                                                      uint32_t sample) {
    sample_ids s;
    s.batch = batch;
    s.number = feature;
    s.sample = sample;
    s.feature = &batch->features[feature];
    s.ids = &batch->feature_ids[feature];
    s.table = &batch->tables[s.feature->table];
    s.begin = s.end = 0;
    return s;
}

__device__ static inline sample_ids sample_at(const rk_cuda_batch *batch, uint32_t item) {
    uint32_t feature = feature_of(batch, item);
    sample_ids s = sample_of_feature(batch, feature, item - batch->feature_ids[feature].first_sample);
    if (s.ids->first_offset == RK_CUDA_NONE) {
        s.begin = s.ids->first_id + s.sample * s.ids->ids_per_sample;
        s.end = s.begin + s.ids->ids_per_sample;
    } else {
        const uint32_t *offsets = batch->offsets + s.ids->first_offset + s.sample;
        s.begin = s.ids->first_id + offsets[0];
        s.end = s.ids->first_id + offsets[1];
    }
    return s;
}

__device__ static inline int64_t id_at(const sample_ids *s, uint32_t i) {
    uint32_t at = s->ids->ids_at + (i - s->ids->first_id);
    return s->batch->wide ? ((const int64_t *)s->batch->ids)[at] : ((const int32_t *)s->batch->ids)[at];
}
__device__ static inline bool is_weighted(const sample_ids *s) {
    return s->ids->first_weight != RK_CUDA_NONE;
}
__device__ static inline float weight_at(const sample_ids *s, uint32_t i) {
    return is_weighted(s) ? s->batch->weights[s->ids->first_weight + (i - s->ids->first_id)] : 1.0f;
}

__device__ static inline int32_t combiner_of_feature(const sample_ids *s) {
    return s->batch->folded && is_weighted(s) ? (int32_t)RK_COMBINER_SUM : s->feature->combiner;
}

/* As the collection's (embedding/local/feature_bags.c). Of a dynamic table ids are rows of keys, or none. */
__device__ static inline id_status check_id(const sample_ids *s, int64_t id, float weight) {
    if (!(fabsf(weight) <= FLT_MAX)) return REFUSED;
    bool light = combiner_of_feature(s) != RK_COMBINER_SUM && weight <= 0;
    if (s->feature->validates && light) return DROPPED;
    if (id < 0 && (s->feature->validates || s->table->is_dynamic)) return DROPPED;
    return id < 0 || (uint64_t)id >= s->table->n_rows || light ? REFUSED : KEPT;
}

__device__ static inline id_status check_id_at(const sample_ids *s, uint32_t i) {
    id_status v = check_id(s, id_at(s, i), weight_at(s, i));
    if (v == REFUSED) atomicMax(&s->batch->counts->bad_id, ~i);
    return v;
}

__device__ static inline void write_row_use(const sample_ids *s, uint32_t use, int64_t row, uint32_t column,
                                            float coefficient) {
    const rk_cuda_batch *batch = s->batch;
    const rk_cuda_table *t = s->table;
    bool has_row = row >= 0, is_absent = t->is_dynamic && !t->trains_shared_rows && row == 0,
         is_sorted = has_row && !is_absent && (t->frames || (batch->training && t->is_trained));
    batch->places[use] = has_row && !t->frames ? (uint32_t)row : RK_CUDA_NONE;
    rk_cuda_use u = {s->number, s->sample, column, coefficient};
    batch->uses[use] = u;
    if (!batch->training && !batch->caches) return;
    uint64_t key = (uint64_t)row;
    if (is_sorted && t->frames) key = (uint64_t)row % t->n_sets * t->n_tags + (uint64_t)row / t->n_sets;
    key = is_sorted ? t->first_key + key : batch->none_key;
    if (batch->has_narrow_keys)
        ((uint32_t *)batch->keys)[use] = (uint32_t)key;
    else
        ((uint64_t *)batch->keys)[use] = key;
    batch->order[use] = use;
}

/* Of ids lane, lane + n_lanes, ... of the sample. Where the coefficients depend on no id they are not read:
 * all are kept, or the batch is refused. */
__device__ static inline weight_sums sum_weights_of_bag(const sample_ids *s, uint32_t lane,
                                                        uint32_t n_lanes) {
    weight_sums sums = {0, 0};
    if (!is_weighted(s) && (s->feature->combiner == RK_COMBINER_SUM || !s->feature->validates)) {
        sums.n_kept = (s->end - s->begin + n_lanes - 1 - lane) / n_lanes;
        return sums;
    }
    for (uint32_t i = s->begin + lane; i < s->end; i += n_lanes) {
        if (check_id(s, id_at(s, i), weight_at(s, i)) != KEPT) continue;
        double w = weight_at(s, i);
        sums.n_kept++;
        sums.below += combiner_of_feature(s) == RK_COMBINER_MEAN ? w : w * w;
    }
    return sums;
}

/* Without weights all of a bag have the same coefficient. */
__device__ static inline float unweighted_bag_scale(const sample_ids *s, uint32_t n_kept) {
    if (s->feature->combiner == RK_COMBINER_SUM) return 1.0f;
    double count = n_kept;
    return n_kept ? (float)(1 / (s->feature->combiner == RK_COMBINER_MEAN ? count : sqrt(count))) : 0.0f;
}

__device__ static inline bag_coefficient coefficient_of_bag(const sample_ids *s, weight_sums sums) {
    bag_coefficient c;
    c.scale = is_weighted(s) ? 1.0f : unweighted_bag_scale(s, sums.n_kept);
    c.below = combiner_of_feature(s) == RK_COMBINER_SQRTN ? sqrt(sums.below) : sums.below;
    return c;
}

__device__ static inline void write_row_use_of_bag(const sample_ids *s, bag_coefficient bag, uint32_t i) {
    float weight = weight_at(s, i), coefficient = bag.scale;
    if (is_weighted(s) && combiner_of_feature(s) == RK_COMBINER_SUM)
        coefficient = weight;
    else if (is_weighted(s))
        coefficient = bag.below != 0 ? (float)(weight / bag.below) : 0.0f;
    write_row_use(s, s->ids->first_use + (i - s->ids->first_id), check_id_at(s, i) == KEPT ? id_at(s, i) : -1,
                  0, coefficient);
}

__device__ static inline void write_row_uses_of_positions_by_thread(const sample_ids *s) {
    uint32_t length = (uint32_t)s->feature->length, dim = (uint32_t)s->table->dim, position = 0,
             use = s->ids->first_use + s->sample * length;
    for (uint32_t i = s->begin; i < s->end; i++) {
        if (check_id_at(s, i) != KEPT || position == length) continue;
        write_row_use(s, use + position, id_at(s, i), position * dim, 1.0f);
        position++;
    }
    for (; position < length; position++) write_row_use(s, use + position, -1, position * dim, 1.0f);
}

/* The lane, of those whose items end before `ends` in ascending order, that item k is of. */
__device__ static inline uint32_t lane_of_item(uint32_t ends, uint32_t k) {
    uint32_t lane = 0;
    for (uint32_t step = RK_WARP / 2; step; step /= 2)
        if (__shfl_sync(RK_FULL_WARP, ends, (int)(lane + step - 1)) <= k) lane += step;
    return lane;
}

/* Each lane's bag, of few ids or of none: the warp goes through the ids of all side by side. */
__device__ static inline void write_row_uses_of_bags_together(const sample_ids *mine, bag_coefficient bag,
                                                              uint32_t n_ids) {
    uint32_t lane = rk_table_lane_number(), ends = n_ids;
    for (uint32_t width = 1; width < RK_WARP; width *= 2) {
        uint32_t before = __shfl_up_sync(RK_FULL_WARP, ends, width);
        if (lane >= width) ends += before;
    }
    uint32_t n = __shfl_sync(RK_FULL_WARP, ends, RK_WARP - 1), first = mine->begin - (ends - n_ids);
    for (uint32_t k = lane; k - lane < n; k += RK_WARP) {
        int owner = (int)lane_of_item(ends, k);
        uint32_t feature = __shfl_sync(RK_FULL_WARP, mine->number, owner),
                 sample = __shfl_sync(RK_FULL_WARP, mine->sample, owner),
                 i = __shfl_sync(RK_FULL_WARP, first, owner) + k;
        bag_coefficient c = {__shfl_sync(RK_FULL_WARP, bag.scale, owner),
                             __shfl_sync(RK_FULL_WARP, bag.below, owner)};
        if (k >= n) continue;
        sample_ids s = sample_of_feature(mine->batch, feature, sample);
        write_row_use_of_bag(&s, c, i);
    }
}

__device__ static inline void write_row_uses_of_positions_by_warp(const sample_ids *s, uint32_t lane) {
    uint32_t length = (uint32_t)s->feature->length, dim = (uint32_t)s->table->dim,
             use = s->ids->first_use + s->sample * length, n_before = 0;
    for (uint32_t first = s->begin; first < s->end; first += RK_WARP) {
        uint32_t i = first + lane;
        bool kept = i < s->end && check_id_at(s, i) == KEPT;
        uint32_t all = __ballot_sync(RK_FULL_WARP, kept),
                 position = n_before + (uint32_t)__popc(all & ((1u << lane) - 1));
        if (kept && position < length) write_row_use(s, use + position, id_at(s, i), position * dim, 1.0f);
        n_before += (uint32_t)__popc(all);
    }
    for (uint32_t position = n_before + lane; position < length; position += RK_WARP)
        write_row_use(s, use + position, -1, position * dim, 1.0f);
}

__device__ static inline void split_bag_into_chunks(const sample_ids *s, uint32_t lane) {
    uint32_t n = s->end - s->begin, n_chunks = (n + RK_CUDA_CHUNK - 1) / RK_CUDA_CHUNK, first = 0;
    uint32_t use = s->ids->first_use + (s->begin - s->ids->first_id);
    if (n <= RK_CUDA_CHUNK) return;
    if (lane == 0) {
        first = atomicAdd(&s->batch->counts->n_bag_chunks, n_chunks);
        s->batch->bag_partials[s->ids->first_bag + s->sample] = first;
    }
    first = __shfl_sync(RK_FULL_WARP, first, 0);
    for (uint32_t c = lane; c < n_chunks; c += RK_WARP) {
        uint32_t begin = c * RK_CUDA_CHUNK, end = begin + RK_CUDA_CHUNK < n ? begin + RK_CUDA_CHUNK : n;
        rk_cuda_chunk chunk = {use + begin, use + end, s->number};
        s->batch->bag_chunks[first + c] = chunk;
    }
}

__device__ static inline void write_row_uses_by_warp(const sample_ids *s, uint32_t lane) {
    if (s->feature->length) {
        write_row_uses_of_positions_by_warp(s, lane);
        return;
    }
    weight_sums sums = sum_weights_of_bag(s, lane, RK_WARP);
    for (int width = RK_WARP / 2; width; width /= 2) {
        sums.n_kept += __shfl_xor_sync(RK_FULL_WARP, sums.n_kept, width);
        sums.below += __shfl_xor_sync(RK_FULL_WARP, sums.below, width);
    }
    bag_coefficient bag = coefficient_of_bag(s, sums);
    if (lane == 0) s->batch->scales[s->ids->first_bag + s->sample] = bag.scale;
    for (uint32_t i = s->begin + lane; i < s->end; i += RK_WARP) write_row_use_of_bag(s, bag, i);
    split_bag_into_chunks(s, lane);
}

__device__ static inline bool is_small_enough_for_thread(const sample_ids *s) {
    uint32_t n = s->end - s->begin, length = (uint32_t)s->feature->length;
    return length ? length <= ALONE_POSITIONS && n <= ALONE_IDS : n <= ALONE_IDS;
}

/* A lane's sample, where it has one: its positions, or how its bag's ids become uses. Returns the ids of the
 * bag that are left for the whole warp to write. */
__device__ static inline uint32_t begin_sample_by_thread(const sample_ids *s, bag_coefficient *bag) {
    if (s->feature->length) {
        write_row_uses_of_positions_by_thread(s);
        return 0;
    }
    *bag = coefficient_of_bag(s, sum_weights_of_bag(s, 0, 1));
    s->batch->scales[s->ids->first_bag + s->sample] = bag->scale;
    return s->end - s->begin;
}

__global__ static void ids_to_row_uses_kernel(const rk_cuda_batch *batch) {
    uint32_t n_items = batch->n_samples;
    uint32_t lane = rk_table_lane_number();
    for (uint32_t first = rk_table_warp_number() * RK_WARP; first < n_items; first += rk_table_n_threads()) {
        bool is_here = first + lane < n_items;
        sample_ids s = sample_at(batch, is_here ? first + lane : first);
        bool for_all = is_here && !is_small_enough_for_thread(&s);
        bag_coefficient bag = {0, 0};
        uint32_t n_ids = is_here && !for_all ? begin_sample_by_thread(&s, &bag) : 0;
        write_row_uses_of_bags_together(&s, bag, n_ids);
        for (uint32_t rest = __ballot_sync(RK_FULL_WARP, for_all); rest; rest &= rest - 1) {
            sample_ids large = sample_at(batch, first + (uint32_t)__ffs((int)rest) - 1);
            write_row_uses_by_warp(&large, lane);
        }
    }
}

extern "C" void rk_cuda_ids_to_row_uses(rk_stream *stream, uint32_t n_most, const rk_cuda_batch *batch) {
    RK_LAUNCH(ids_to_row_uses_kernel, rk_table_grid_size(n_most, RK_TABLE_THREADS), RK_TABLE_THREADS, 0,
              stream, batch);
}
