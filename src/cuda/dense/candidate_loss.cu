/* Rows of scores to losses and gradients: a block a sample, sums in a fixed order. */
#include "cuda/platform.h"

#include "cuda/dense/candidate_loss.h"
#include "cuda/dense/dense_kernel_helpers.h"

/* The largest of a block, in every thread; shared as rk_block_sum_f64's. */
__device__ static inline float block_max(float x, double *shared) {
    x = rk_warp_max(x);
    __syncthreads();
    if (rk_lane_number() == 0) shared[threadIdx.x / RK_WARP] = (double)x;
    __syncthreads();
    double most = shared[0];
    for (int w = 1; w < RK_WARPS; w++) most = fmax(most, shared[w]);
    return (float)most;
}

/* Takes out the sample's own item, and of a group in a row all but the best (the first of equals). Returns
 * how many are left. */
__device__ static inline double mask_candidates_row(const rk_cuda_candidates_args &a, float *scores,
                                                    int32_t own_id, double *sums) {
    int64_t n_single = a.hard > 1 ? a.first_grouped : a.n_candidates, n_left = 0;
    for (int64_t c = threadIdx.x; c < n_single; c += RK_THREADS) {
        bool counts = a.ids[c] != own_id && RK_SCORE_COUNTS(scores[c]);
        if (!counts) scores[c] = RK_NO_SCORE;
        n_left += counts;
    }
    for (int64_t first = n_single + threadIdx.x * a.hard; first < a.n_candidates;
         first += RK_THREADS * a.hard) {
        int64_t best = -1;
        for (int64_t c = first; c < first + a.hard; c++)
            if (a.ids[c] != own_id && RK_SCORE_COUNTS(scores[c]) && (best < 0 || scores[c] > scores[best]))
                best = c;
        for (int64_t c = first; c < first + a.hard; c++)
            if (c != best) scores[c] = RK_NO_SCORE;
        n_left += best >= 0;
    }
    return rk_block_sum_f64((double)n_left, sums);
}

typedef struct outcome {
    double loss, own_gradient;
} outcome;

__device__ static inline outcome softmax_loss_row(const rk_cuda_candidates_args &a, float *scores, int64_t i,
                                                  double weight, double *sums) {
    float factor = (float)(1 / a.temperature),
          own = a.own_scores[i] * factor - (a.own_log_q ? a.own_log_q[i] : 0), top = own;
    for (int64_t c = threadIdx.x; c < a.n_candidates; c += RK_THREADS) {
        if (RK_SCORE_COUNTS(scores[c])) scores[c] = scores[c] * factor - (a.log_q ? a.log_q[c] : 0);
        top = fmaxf(top, scores[c]);
    }
    top = block_max(top, sums);
    double sum = 0;
    for (int64_t c = threadIdx.x; c < a.n_candidates; c += RK_THREADS) {
        scores[c] = expf(scores[c] - top);
        sum += (double)scores[c];
    }
    double own_part = exp((double)(own - top));
    sum = rk_block_sum_f64(sum, sums) + own_part;
    float slope = (float)(weight / (a.temperature * sum));
    for (int64_t c = threadIdx.x; c < a.n_candidates; c += RK_THREADS) scores[c] *= slope;
    return {weight * (log(sum) - (double)(own - top)), weight / a.temperature * (own_part / sum - 1)};
}

__device__ static inline outcome bpr_loss_row(const rk_cuda_candidates_args &a, float *scores, int64_t i,
                                              double weight, double n_left, double *sums) {
    double a_candidate = n_left > 0 ? weight / n_left : 0, loss = 0, slopes = 0;
    float factor = (float)(1 / a.temperature), own = a.own_scores[i],
          slope = (float)(a_candidate / a.temperature);
    for (int64_t c = threadIdx.x; c < a.n_candidates; c += RK_THREADS) {
        bool counts = RK_SCORE_COUNTS(scores[c]);
        float x = (scores[c] - own) * factor, e = expf(-fabsf(x));
        if (counts) loss += (double)(fmaxf(x, 0) + log1pf(e));
        scores[c] = counts ? slope * ((x > 0 ? 1 : e) / (1 + e)) : 0;
        slopes += (double)scores[c];
    }
    loss = rk_block_sum_f64(loss, sums);
    return {a_candidate * loss, -rk_block_sum_f64(slopes, sums)};
}

__device__ static inline outcome contrastive_loss_row(const rk_cuda_candidates_args &a, float *scores,
                                                      int64_t i, double weight, double n_left, double *sums) {
    double a_candidate = n_left > 0 ? a.negative_weight / n_left : 0, above = 0;
    float slope = (float)(weight * a_candidate), margin = (float)a.margin;
    for (int64_t c = threadIdx.x; c < a.n_candidates; c += RK_THREADS) {
        bool violates = scores[c] > margin;
        above += violates ? (double)(scores[c] - margin) : 0;
        scores[c] = violates ? slope : 0;
    }
    return {weight * (1 - (double)a.own_scores[i] + a_candidate * rk_block_sum_f64(above, sums)), -weight};
}

__global__ static void candidate_losses_kernel(rk_cuda_candidates_args a) {
    RK_SHARED(double, sums, RK_WARPS);
    int64_t i = blockIdx.x;
    float *scores = a.scores + i * a.n_candidates;
    double weight = *a.scale * (double)a.weights[i],
           n_left = mask_candidates_row(a, scores, a.own_ids[i], sums);
    outcome o = a.kind == RK_CANDIDATES_BPR ? bpr_loss_row(a, scores, i, weight, n_left, sums)
                : a.kind == RK_CANDIDATES_COSINE_CONTRASTIVE
                    ? contrastive_loss_row(a, scores, i, weight, n_left, sums)
                    : softmax_loss_row(a, scores, i, weight, sums);
    if (threadIdx.x > 0) return;
    a.losses[i] = o.loss;
    a.own_gradient[i] = (float)o.own_gradient;
}

/* rk_sample_candidate_loss of each sample */
void rk_cuda_candidate_losses(rk_stream *stream, const rk_cuda_candidates_args *args) {
    RK_LAUNCH(candidate_losses_kernel, (uint32_t)args->n, RK_THREADS, 0, stream, *args);
}

__global__ static void sum_losses_kernel(int64_t n, const double *losses, double *to, uint32_t *stop,
                                         uint32_t stop_bit) {
    RK_SHARED(double, sums, RK_WARPS);
    double sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += RK_THREADS) sum += losses[i];
    sum = rk_block_sum_f64(sum, sums);
    if (threadIdx.x > 0) return;
    *to = sum;
    if (!isfinite(sum)) atomicOr(stop, stop_bit);
}

/* *sum = sum_i losses[i]; *stop |= stop_bit if it is not finite */
void rk_cuda_sum_losses(rk_stream *stream, int64_t n, const double *losses, double *sum, uint32_t *stop,
                        uint32_t stop_bit) {
    RK_LAUNCH(sum_losses_kernel, 1, RK_THREADS, 0, stream, n, losses, sum, stop, stop_bit);
}
