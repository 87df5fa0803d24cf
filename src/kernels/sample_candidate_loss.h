/* One sample's loss over its candidates' scores: what rk_sample_candidate_loss takes and gives. */
#ifndef RK_KERNELS_SAMPLE_CANDIDATE_LOSS_H
#define RK_KERNELS_SAMPLE_CANDIDATE_LOSS_H

#include <stdint.h>

#include "kernels/real.h"

typedef enum rk_candidate_loss_kind {
    RK_CANDIDATES_SOFTMAX,
    RK_CANDIDATES_BPR,
    RK_CANDIDATES_COSINE_CONTRASTIVE
} rk_candidate_loss_kind;

/* Stands for the score of a candidate that does not count. */
#define RK_NO_SCORE            ((rk_real)-1e30)
#define RK_SCORE_COUNTS(score) ((score) > (rk_real)-1e29)

/* Candidates c = 0 .. n-1; c counts if ids[c] is neither own_id nor -1, and, among the n_grouped from
 * first_grouped on, if scores[c] is the largest of its `hard` ones in a row that do (the first of equals).
 * With T the temperature and N the number that count:
 *
 *     softmax              loss = -ln( e^z / (e^z + sum_c e^z_c) ),  z_c = scores[c] / T - log_q[c],  z = own
 *                          / T - own_log_q
 *     bpr                  loss = 1/N sum_c ln(1 + e^((scores[c] - own) / T))
 *     cosine_contrastive   loss = 1 - own + negative_weight / N sum_c max(0, scores[c] - margin)
 *
 * loss, scores[c] and own_gradient become weight times the loss and its derivatives to scores[c] (0 if c does
 * not count) and own. */
typedef struct rk_sample_candidate_loss_args {
    rk_candidate_loss_kind kind;
    rk_real *scores;      /* [n] */
    const int32_t *ids;   /* [n] */
    const rk_real *log_q; /* [n] */
    int64_t n;            /* a multiple of RK_LANES */
    int64_t first_grouped, n_grouped, hard;
    int32_t own_id;
    rk_real own, own_log_q;
    double temperature, margin, negative_weight, weight;
    double loss;          /* out */
    rk_real own_gradient; /* out */
} rk_sample_candidate_loss_args;

#endif
