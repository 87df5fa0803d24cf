/* AUC by one sort: a positive sample counts the negatives that are predicted below it, and half of those
 * predicted the same. Sums in f64 in a fixed order: whole numbers of samples without weights are exact, as
 * the CPU's. About 60 bytes of memory a sample beside the sort. */
#include "cuda/platform.h"

extern "C" {
#include "base/float16.h"
}

#include "cuda/dense/dense_kernel_helpers.h"
#include "cuda/metrics/metrics.h"

/* Unsigned integers in the order of the floats; -0 and 0 tie (metrics/sort_by_prediction.h). */
__global__ static void make_sort_keys_kernel(rk_cuda_metric_args a, rk_cuda_metric_memory m) {
    int64_t i = rk_thread_number();
    if (i >= a.n) return;
    uint32_t bits = rk_f32_bits(a.samples[i].prediction + 0.0f);
    m.keys[i] = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    m.places[i] = (uint32_t)i;
}

/* The weight of a sample that is positive, or negative. */
__device__ static inline double weight_of_sample(const rk_cuda_metric_args &a, const rk_cuda_metric_memory &m,
                                                 int64_t place, bool positive) {
    rk_metric_sample sample = a.samples[m.order[place]];
    double label = (double)sample.label;
    return (double)sample.weight * (positive ? label : 1 - label);
}

/* A block a tile: thread t has values 4t .. 4t+3 of it. */
__global__ static void sum_negatives_of_tiles_kernel(rk_cuda_metric_args a, rk_cuda_metric_memory m) {
    RK_SHARED(double, sums, 2 * RK_THREADS);
    int64_t first = (int64_t)blockIdx.x * RK_CUDA_AUC_TILE + 4 * (int64_t)threadIdx.x;
    double own[4], sum = 0;
    for (int k = 0; k < 4; k++) {
        own[k] = sum;
        if (first + k < a.n) sum += weight_of_sample(a, m, first + k, false);
    }
    int from = 0;
    sums[threadIdx.x] = sum;
    for (unsigned width = 1; width < RK_THREADS; width *= 2, from = !from) { /* inclusive scan */
        __syncthreads();
        double *now = sums + from * RK_THREADS, *next = sums + !from * RK_THREADS;
        next[threadIdx.x] = now[threadIdx.x] + (threadIdx.x >= width ? now[threadIdx.x - width] : 0);
    }
    __syncthreads();
    double before = threadIdx.x ? sums[from * RK_THREADS + threadIdx.x - 1] : 0;
    for (int k = 0; k < 4 && first + k < a.n; k++) m.below[first + k] = before + own[k];
    if (threadIdx.x == RK_THREADS - 1) m.tiles[blockIdx.x] = sums[from * RK_THREADS + threadIdx.x];
}

/* Sums of tiles to those before each. */
__global__ static void scan_sums_of_tiles_kernel(rk_cuda_metric_memory m, int64_t n_tiles) {
    double sum = 0;
    for (int64_t t = 0; t <= n_tiles; t++) {
        double tile = t < n_tiles ? m.tiles[t] : 0;
        m.tiles[t] = sum;
        sum += tile;
    }
}

/* The first place whose key is not below `key`, or is above it. */
__device__ static inline int64_t lower_bound_of_key(const uint64_t *sorted, int64_t n, uint64_t key,
                                                    bool above) {
    int64_t first = 0, end = n;
    while (first < end) {
        int64_t middle = first + (end - first) / 2;
        if (sorted[middle] < key || (above && sorted[middle] == key))
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

__device__ static inline double negative_weight_before(const rk_cuda_metric_args &a,
                                                       const rk_cuda_metric_memory &m, int64_t n_tiles,
                                                       int64_t place) {
    return place == a.n ? m.tiles[n_tiles] : m.tiles[place / RK_CUDA_AUC_TILE] + m.below[place];
}

__global__ static void sum_ordered_pairs_kernel(rk_cuda_metric_args a, rk_cuda_metric_memory m,
                                                int64_t n_tiles) {
    RK_SHARED(double, sums, RK_WARPS);
    double ordered = 0, positives = 0;
    for (int64_t i = rk_thread_number(); i < a.n; i += (int64_t)gridDim.x * RK_THREADS) {
        double weight = weight_of_sample(a, m, i, true);
        if (weight == 0) continue;
        double below =
            negative_weight_before(a, m, n_tiles, lower_bound_of_key(m.sorted, a.n, m.sorted[i], false));
        double tied =
            negative_weight_before(a, m, n_tiles, lower_bound_of_key(m.sorted, a.n, m.sorted[i], true)) -
            below;
        ordered += weight * (below + 0.5 * tied);
        positives += weight;
    }
    ordered = rk_block_sum_f64(ordered, sums);
    positives = rk_block_sum_f64(positives, sums);
    if (threadIdx.x > 0) return;
    m.partials[blockIdx.x] = ordered;
    m.partials[RK_CUDA_METRIC_BLOCKS + blockIdx.x] = positives;
}

__global__ static void finish_auc_kernel(rk_cuda_metric_args a, rk_cuda_metric_memory m, int64_t n_tiles,
                                         int n_blocks) {
    double ordered = 0, positives = 0, negatives = m.tiles[n_tiles];
    for (int b = 0; b < n_blocks; b++) {
        ordered += m.partials[b];
        positives += m.partials[RK_CUDA_METRIC_BLOCKS + b];
    }
    a.totals->auc = positives > 0 && negatives > 0 ? ordered / (positives * negatives) : NAN;
}

/* totals->auc = sum over pairs of a positive and a negative sample of [its prediction is larger] + [they are
 * the same] / 2, over their number */
void rk_cuda_auc(rk_stream *stream, const rk_cuda_metric_args *args, const rk_cuda_metric_memory *memory) {
    int64_t n_tiles = (args->n + RK_CUDA_AUC_TILE - 1) / RK_CUDA_AUC_TILE;
    uint32_t blocks = rk_grid_blocks_up_to(args->n, RK_CUDA_METRIC_BLOCKS);
    RK_LAUNCH(make_sort_keys_kernel, rk_grid_blocks(args->n, RK_THREADS), RK_THREADS, 0, stream, *args,
              *memory);
    if (args->n > 0)
        rk_cuda_sort(stream, args->n, 32, sizeof *memory->keys, memory->keys, memory->sorted, memory->places,
                     memory->order, memory->scratch, memory->scratch_bytes);
    RK_LAUNCH(sum_negatives_of_tiles_kernel, (uint32_t)n_tiles, RK_THREADS, 0, stream, *args, *memory);
    RK_LAUNCH(scan_sums_of_tiles_kernel, 1, 1, 0, stream, *memory, n_tiles);
    RK_LAUNCH(sum_ordered_pairs_kernel, blocks, RK_THREADS, 0, stream, *args, *memory, n_tiles);
    RK_LAUNCH(finish_auc_kernel, 1, 1, 0, stream, *args, *memory, n_tiles, (int)blocks);
}
