/* Losses of retrieval over rows of scores, on the device: what nn/candidate_loss.h and
 * kernels/sample_candidate_loss.h have, a sample a block. */
#ifndef RK_CUDA_DENSE_CANDIDATE_LOSS_H
#define RK_CUDA_DENSE_CANDIDATE_LOSS_H

#include "cuda/launch.h"
#include "kernels/sample_candidate_loss.h"

typedef struct rk_cuda_candidates_args {
    rk_candidate_loss_kind kind;
    int64_t n, n_candidates;
    float *scores; /* [n, n_candidates]: of samples with candidates; out: the loss's derivatives to them, 0
                      where one does not count */
    const int32_t *ids;          /* [n_candidates] */
    const float *log_q;          /* [n_candidates] or NULL */
    const int32_t *own_ids;      /* [n]; below too: of the samples' own items */
    const float *own_scores;     /* [n] */
    const float *own_log_q;      /* [n] or NULL */
    const float *weights;        /* [n] */
    const double *scale;         /* one: each sample's weight is multiplied by it */
    int64_t first_grouped, hard; /* candidates from first_grouped on count one of `hard` in a row */
    double temperature, margin, negative_weight;
    float *own_gradient; /* [n], out: the derivatives to own_scores */
    double *losses;      /* [n], out: weighted and scaled */
} rk_cuda_candidates_args;

// clang-format off
#define RK_CUDA_CANDIDATES_LIST(X)                                                                          \
    X(rk_cuda_candidate_losses, (rk_stream *stream, const rk_cuda_candidates_args *args))                   \
    X(rk_cuda_sum_losses,                                                                                   \
      (rk_stream *stream, int64_t n, const double *losses, double *sum, uint32_t *stop, uint32_t stop_bit))
// clang-format on
RK_CUDA_CANDIDATES_LIST(RK_CUDA_PROTOTYPE)

#endif
