/* Losses of tasks and their gradients (nn/loss.c, model/step/task_losses.c): a block has a piece of the
 * batch, sums in f64 in a fixed order; then one block adds the pieces. */
#include "cuda/platform.h"

extern "C" {
#include "kernels/inline/scalar_functions.h"
}

#include "cuda/dense/dense_kernel_helpers.h"

__device__ static inline bool has_learned_weight(const rk_cuda_loss_args &a, int t) {
    return a.log_variances && a.tasks[t].learned && a.shares[t] > 0;
}

/* What a sample's weight is multiplied by. Uncertainty weighting: Kendall et al. 2018
 * (model/step/task_losses.c). */
__device__ static inline double compute_loss_scale(const rk_cuda_loss_args &a, int t) {
    return a.scales[t] *
           (has_learned_weight(a, t) ? exp(-(double)a.log_variances[t]) * (a.tasks[t].is_mse ? 0.5 : 1) : 1);
}

/* Sample i of task t: its weighted loss; the gradient is written. */
__device__ static inline double compute_sample_loss(const rk_cuda_loss_args &a, rk_cuda_task task, int t,
                                                    double scale, int64_t i) {
    int64_t at = i * a.n_tasks + t;
    double x = (double)a.logits[at], y = rk_smoothed_label((double)a.labels[at], task.smoothing),
           w = a.weights ? (double)a.weights[i] : 1;
    bool absent = task.optional && isnan(y);
    double slope = task.is_mse ? 2 * (x - y) : rk_sigmoid(x) - y;
    if (a.gradient) a.gradient[at] = absent ? 0 : (float)(scale * w * slope);
    return absent ? 0 : w * (task.is_mse ? (x - y) * (x - y) : rk_cross_entropy_of_logit(x, y));
}

__global__ static void sum_losses_of_pieces_kernel(rk_cuda_loss_args a) {
    RK_SHARED(double, sums, RK_WARPS);
    int64_t piece = (a.n + gridDim.x - 1) / gridDim.x, first = blockIdx.x * piece,
            last = first + piece < a.n ? first + piece : a.n;
    for (int t = 0; t < a.n_tasks; t++) {
        rk_cuda_task task = a.tasks[t];
        double scale = compute_loss_scale(a, t), sum = 0;
        for (int64_t i = first + threadIdx.x; i < last; i += RK_THREADS)
            sum += compute_sample_loss(a, task, t, scale, i);
        sum = rk_block_sum_f64(sum, sums);
        if (threadIdx.x == 0) a.partials[(int64_t)blockIdx.x * a.n_tasks + t] = sum;
    }
}

__global__ static void add_losses_of_pieces_kernel(rk_cuda_loss_args a, int n_pieces) {
    for (int t = (int)threadIdx.x; t < a.n_tasks; t += RK_THREADS) {
        double loss = 0;
        for (int p = 0; p < n_pieces; p++) loss += a.partials[(int64_t)p * a.n_tasks + t];
        loss *= compute_loss_scale(a, t);
        if (a.slopes) a.slopes[t] = has_learned_weight(a, t) ? (float)(a.shares[t] / 2 - loss) : 0;
        if (has_learned_weight(a, t)) loss += a.shares[t] * (double)a.log_variances[t] / 2;
        a.losses[t] = loss;
        if (!isfinite(loss)) atomicOr(a.stop, a.stop_bit);
    }
}

/* losses[t] = scale_t sum_i w_i l(logits[i, t], labels[i, t]), and its gradient; with exp(-s) in scale_t and
 * + share_t s/2 where s is learned */
void rk_cuda_loss(rk_stream *stream, const rk_cuda_loss_args *args) {
    uint32_t blocks = rk_grid_blocks(args->n, RK_THREADS);
    blocks = blocks < 1 ? 1 : blocks > RK_CUDA_LOSS_BLOCKS ? (uint32_t)RK_CUDA_LOSS_BLOCKS : blocks;
    RK_LAUNCH(sum_losses_of_pieces_kernel, blocks, RK_THREADS, 0, stream, *args);
    RK_LAUNCH(add_losses_of_pieces_kernel, 1, RK_THREADS, 0, stream, *args, (int)blocks);
}

__global__ static void predictions_kernel(int64_t n, int32_t n_tasks, const rk_cuda_task *tasks,
                                          const float *logits, float *to) {
    int64_t i = rk_thread_number();
    if (i < n) to[i] = tasks[i % n_tasks].is_mse ? logits[i] : (float)rk_sigmoid((double)logits[i]);
}

/* predictions[i, t] = sigmoid(logits[i, t]), or the logit itself of a regression */
void rk_cuda_predictions(rk_stream *stream, int64_t n, int32_t n_tasks, const rk_cuda_task *tasks,
                         const float *logits, float *to) {
    RK_LAUNCH(predictions_kernel, rk_grid_blocks(n * n_tasks, RK_THREADS), RK_THREADS, 0, stream, n * n_tasks,
              n_tasks, tasks, logits, to);
}
