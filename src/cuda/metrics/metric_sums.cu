/* The sums that metrics follow from, in f64, in a fixed order. */
#include "cuda/platform.h"

#include "cuda/dense/dense_kernel_helpers.h"
#include "cuda/metrics/metrics.h"

__global__ static void sum_metrics_of_samples_kernel(rk_cuda_metric_args a, rk_cuda_metric_memory m) {
    RK_SHARED(double, shared, RK_WARPS);
    double sums[RK_METRIC_SUMS] = {};
    for (int64_t i = rk_thread_number(); i < a.n; i += (int64_t)gridDim.x * RK_THREADS)
        rk_metric_sums_add_sample(sums, a.binary, a.samples[i]);
    for (int k = 0; k < RK_METRIC_SUMS; k++) {
        double sum = rk_block_sum_f64(sums[k], shared);
        if (threadIdx.x == 0) m.partials[k * RK_CUDA_METRIC_BLOCKS + blockIdx.x] = sum;
    }
}

/* A thread a sum. */
__global__ static void finish_metric_sums_kernel(rk_cuda_metric_args a, rk_cuda_metric_memory m,
                                                 int n_blocks) {
    double sum = 0;
    for (int b = 0; b < n_blocks; b++) sum += m.partials[threadIdx.x * RK_CUDA_METRIC_BLOCKS + b];
    a.totals->sums[threadIdx.x] = sum;
}

/* totals->sums = rk_metric_sums_add_sample of all samples */
void rk_cuda_metric_sums(rk_stream *stream, const rk_cuda_metric_args *args,
                         const rk_cuda_metric_memory *memory) {
    uint32_t blocks = rk_grid_blocks_up_to(args->n, RK_CUDA_METRIC_BLOCKS);
    RK_LAUNCH(sum_metrics_of_samples_kernel, blocks, RK_THREADS, 0, stream, *args, *memory);
    RK_LAUNCH(finish_metric_sums_kernel, 1, RK_METRIC_SUMS, 0, stream, *args, *memory, (int)blocks);
}
