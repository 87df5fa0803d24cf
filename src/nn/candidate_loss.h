/* Losses of retrieval: n samples, each a user's vector u_i and the vector v_i of the item that goes with it,
 * against candidates that all samples share: with in_batch the other samples' items, and n_sampled items
 * drawn for the batch. With s_i = u_i . v_i, s_ij = u_i . v_j, temperature T, and over the candidates j of
 * sample i that are not its own item (accidental hits are masked), N of them:
 *
 *     softmax              -ln( e^z_i / (e^z_i + sum_j e^z_ij) ),  z = s / T - log_q of the item       (Yi et
 *                          al. 2019; without log_q: log_q = 0)
 *     bpr                  1/N sum_j ln(1 + e^((s_ij - s_i) / T))
 *                          (Rendle et al. 2009)
 *     cosine_contrastive   1 - s_i + w/N sum_j max(0, s_ij - margin), w = negative_weight              (Mao
 *                          et al. 2021)
 *
 * hard: of each `hard` sampled candidates one after another only that of the largest s_ij counts, the first
 * of equals (Zhang et al. 2013: dynamic sampling). The loss is scale * sum_i weight_i loss_i. Samples are cut
 * into micro-batches of whole blocks; sums run within a micro-batch in an order that depends on n alone, and
 * then, of gradients, over micro-batches as a binary tree (base/tree_sum.h): so a few of the micro-batches
 * can run here and others elsewhere. */
#ifndef RK_NN_CANDIDATE_LOSS_H
#define RK_NN_CANDIDATE_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "kernels/sample_candidate_loss.h"

typedef struct rk_candidate_loss_config {
    rk_candidate_loss_kind kind;
    int64_t dim, max_n, n_sampled;
    bool in_batch;
    int64_t hard; /* 1: all count; divides n_sampled */
    double temperature, margin, negative_weight;
    int32_t n_micro_batches, first_micro_batch,
        n_here; /* n_here 0: all are here; n_micro_batches 0: there is one */
} rk_candidate_loss_config;

typedef struct rk_candidate_loss rk_candidate_loss;
rk_status rk_candidate_loss_create(const rk_candidate_loss_config *config, rk_candidate_loss **out);
void rk_candidate_loss_free(rk_candidate_loss *loss);
uint64_t rk_candidate_loss_bytes(const rk_candidate_loss *loss);
/* The first of n samples that is in micro-batch `micro_batch` of n_micro_batches or in one after it. */
int64_t rk_candidate_loss_first_sample(int64_t n, int32_t n_micro_batches, int32_t micro_batch);

typedef struct rk_candidate_loss_args {
    int64_t n;            /* <= max_n */
    const rk_real *users; /* [n, dim] */
    const rk_real *items; /* [n + n_sampled, dim]: the samples' own, then the sampled ones */
    const int32_t *ids;   /* [n + n_sampled]: of those items */
    const rk_real *log_q; /* [n + n_sampled] or NULL: logarithms of the probabilities to be a candidate; read
                             by softmax */
    const float *weights; /* [n] or NULL */
    double scale;
    rk_real *user_gradient; /* [n, dim], written where the samples' micro-batch runs here */
    rk_real *item_gradient; /* [n + n_sampled, dim], written: the part of those micro-batches */
} rk_candidate_loss_args;
/* out [n_here]: of each micro-batch. */
rk_status rk_candidate_loss_run(rk_candidate_loss *loss, const rk_candidate_loss_args *args, double *out);

#endif
