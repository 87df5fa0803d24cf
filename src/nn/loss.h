/* Losses over logits, with their gradients. Sums run in a fixed order, so the same bits at any thread
 * count. */
#ifndef RK_NN_LOSS_H
#define RK_NN_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "kernels/real.h"

typedef enum rk_loss_kind { RK_LOSS_SIGMOID_CROSS_ENTROPY, RK_LOSS_MSE, RK_LOSS_COUNT } rk_loss_kind;
const char *rk_loss_name(rk_loss_kind kind); /* "sigmoid_cross_entropy", "mse" */

typedef struct rk_loss_args {
    rk_loss_kind kind;
    int64_t n;
    int32_t n_tasks, task; /* logits, labels: column `task` of [n, n_tasks] */
    const rk_real *logits; /* [n, n_tasks] */
    const float *labels;   /* [n, n_tasks] */
    const float *weights;  /* [n] or NULL */
    bool optional;         /* a label may be absent (NaN): such a sample has no loss and no gradient */
    double smoothing;      /* a label y counts as y (1 - smoothing) + smoothing / 2 (Szegedy et al., 2016) */
    double scale;          /* the task's weight over rk_loss_sum_weights of the whole batch */
    rk_real *gradient;     /* [n, n_tasks], column `task` written; or NULL */
} rk_loss_args;

/* Sum of the samples' weights, all 1 where `weights` [n] is NULL: of all samples, or of those whose label is
 * there. labels: [n], `stride` apart, or NULL: all. */
double rk_loss_sum_weights(int64_t n, const float *weights, const float *labels, int64_t stride);

/* *out = scale * sum_i w_i l_i, these samples' part of the batch's mean loss; the gradient is of that.
 * Stable for large logits. */
void rk_loss_compute(const rk_loss_args *args, double *out);

/* What a logit means to a user: sigmoid(x), or x itself. */
rk_real rk_loss_prediction_of_logit(rk_loss_kind kind, rk_real logit);

#endif
