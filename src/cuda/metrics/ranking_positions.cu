/* A block a user: its row of scores is read once for every few of the items that are asked for, which most
 * users have no more of. */
#include "cuda/platform.h"

#include "cuda/dense/dense_kernel_helpers.h"
#include "cuda/metrics/ranking_positions.h"

enum { AT_ONCE = 8 }; /* items whose places a thread counts in one pass over its scores */

__device__ static inline bool list_contains(const int64_t *items, int64_t first, int64_t end, int64_t item) {
    while (first < end) {
        int64_t middle = first + (end - first) / 2;
        if (items[middle] == item) return true;
        if (items[middle] < item)
            first = middle + 1;
        else
            end = middle;
    }
    return false;
}

__device__ static inline void flag_scores_not_finite(const rk_cuda_ranking_positions_args &a,
                                                     const rk_cuda_item_lists &l, const float *scores) {
    for (int64_t item = threadIdx.x; item < a.n_items; item += RK_THREADS)
        if (!isfinite(scores[item]) && !list_contains(a.masked, l.masked, l.masked_end, item))
            atomicMin((unsigned long long *)a.bad,
                      (unsigned long long)blockIdx.x << 32 | (unsigned long long)item);
}

/* Of asked items first .. first+n-1; an equal score goes by the smaller item. */
__device__ static inline void count_items_ranked_before(const rk_cuda_ranking_positions_args &a,
                                                        const float *scores, int64_t first, int n,
                                                        unsigned *counts) {
    float own[AT_ONCE];
    int64_t items[AT_ONCE];
    unsigned before[AT_ONCE];
    for (int k = 0; k < AT_ONCE; k++) {
        items[k] = k < n ? a.asked[first + k] : 0;
        own[k] = scores[items[k]];
        before[k] = 0;
    }
    for (int64_t item = threadIdx.x; item < a.n_items; item += RK_THREADS) {
        float score = scores[item];
        for (int k = 0; k < AT_ONCE; k++) before[k] += score > own[k] || (score == own[k] && item < items[k]);
    }
    for (int k = 0; k < AT_ONCE; k++) /* all of them, so that they stay in registers */
        if (k < n) atomicAdd(&counts[k], before[k]);
    __syncthreads();
    int k = (int)threadIdx.x;
    if (k < n) a.places[first + k] = scores[a.asked[first + k]] == -INFINITY ? RK_NO_PLACE : counts[k];
}

__global__ static void ranking_positions_kernel(rk_cuda_ranking_positions_args a) {
    RK_SHARED(unsigned, counts, AT_ONCE);
    rk_cuda_item_lists l = a.lists[blockIdx.x];
    float *scores = a.scores + (int64_t)blockIdx.x * a.n_items;
    flag_scores_not_finite(a, l, scores);
    __syncthreads();
    for (int64_t i = l.masked + threadIdx.x; i < l.masked_end; i += RK_THREADS)
        scores[a.masked[i]] = -INFINITY;
    for (int64_t first = l.asked; first < l.asked_end; first += AT_ONCE) {
        __syncthreads();
        if (threadIdx.x < AT_ONCE) counts[threadIdx.x] = 0;
        __syncthreads();
        count_items_ranked_before(
            a, scores, first, l.asked_end - first < AT_ONCE ? (int)(l.asked_end - first) : AT_ONCE, counts);
    }
}

/* for u, asked item i of u: places[i] = #{item : not masked, score > own, or as large and item < i};
 * RK_NO_PLACE if i is masked */
void rk_cuda_ranking_positions(rk_stream *stream, const rk_cuda_ranking_positions_args *args) {
    RK_LAUNCH(ranking_positions_kernel, (uint32_t)args->n_users, RK_THREADS, 0, stream, *args);
}
