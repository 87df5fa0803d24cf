/* GAUC by a second, stable sort: by group, within which samples stay in the order of their predictions. A
 * thread walks a group as the CPU does; groups are users, say, and short. */
#include "cuda/platform.h"

#include "cuda/dense/dense_kernel_helpers.h"
#include "cuda/metrics/metrics.h"

__global__ static void make_group_keys_kernel(rk_cuda_metric_args a, rk_cuda_metric_memory m) {
    int64_t i = rk_thread_number();
    if (i >= a.n) return;
    m.keys[i] = (uint64_t)a.groups[m.order[i]];
    m.places[i] = m.order[i];
}

__device__ static inline void add_auc_of_group(const rk_cuda_metric_args &a, const rk_cuda_metric_memory &m,
                                               int64_t first, double *sum, double *weights) {
    rk_pair_sum pairs = {};
    double weight = 0;
    for (int64_t i = first; i < a.n && m.sorted[i] == m.sorted[first]; i++) {
        rk_metric_sample sample = a.samples[m.order[i]];
        rk_pair_sum_add_sample(&pairs, sample);
        weight += (double)sample.weight;
    }
    double area = rk_pair_sum_compute_auc(&pairs);
    if (isnan(area)) return;
    *sum += weight * area;
    *weights += weight;
}

/* A thread adds up the groups that begin at its places. */
__global__ static void sum_aucs_of_groups_kernel(rk_cuda_metric_args a, rk_cuda_metric_memory m) {
    RK_SHARED(double, sums, RK_WARPS);
    double sum = 0, weights = 0;
    for (int64_t i = rk_thread_number(); i < a.n; i += (int64_t)gridDim.x * RK_THREADS)
        if (i == 0 || m.sorted[i] != m.sorted[i - 1]) add_auc_of_group(a, m, i, &sum, &weights);
    sum = rk_block_sum_f64(sum, sums);
    weights = rk_block_sum_f64(weights, sums);
    if (threadIdx.x > 0) return;
    m.partials[blockIdx.x] = sum;
    m.partials[RK_CUDA_METRIC_BLOCKS + blockIdx.x] = weights;
}

__global__ static void finish_gauc_kernel(rk_cuda_metric_args a, rk_cuda_metric_memory m, int n_blocks) {
    double sum = 0, weights = 0;
    for (int b = 0; b < n_blocks; b++) {
        sum += m.partials[b];
        weights += m.partials[RK_CUDA_METRIC_BLOCKS + b];
    }
    a.totals->gauc = weights > 0 ? sum / weights : NAN;
}

/* totals->gauc = the groups' AUCs, weighted by the groups' weights; groups of one class are left out. */
void rk_cuda_gauc(rk_stream *stream, const rk_cuda_metric_args *args, const rk_cuda_metric_memory *memory) {
    uint32_t blocks = rk_grid_blocks_up_to(args->n, RK_CUDA_METRIC_BLOCKS);
    RK_LAUNCH(make_group_keys_kernel, rk_grid_blocks(args->n, RK_THREADS), RK_THREADS, 0, stream, *args,
              *memory);
    if (args->n > 0)
        rk_cuda_sort(stream, args->n, 64, sizeof *memory->keys, memory->keys, memory->sorted, memory->places,
                     memory->order, memory->scratch, memory->scratch_bytes);
    RK_LAUNCH(sum_aucs_of_groups_kernel, blocks, RK_THREADS, 0, stream, *args, *memory);
    RK_LAUNCH(finish_gauc_kernel, 1, 1, 0, stream, *args, *memory, (int)blocks);
}
