#include "nn/loss.h"

#include <math.h>

#include "kernels/inline/scalar_functions.h"

const char *rk_loss_name(rk_loss_kind kind) {
    return kind == RK_LOSS_MSE ? "mse" : "sigmoid_cross_entropy";
}

rk_real rk_loss_prediction_of_logit(rk_loss_kind kind, rk_real logit) {
    return kind == RK_LOSS_MSE ? logit : (rk_real)rk_sigmoid((double)logit);
}

double rk_loss_sum_weights(int64_t n, const float *weights, const float *labels, int64_t stride) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        if (!labels || !isnan(labels[i * stride])) sum += weights ? (double)weights[i] : 1;
    return sum;
}

void rk_loss_compute(const rk_loss_args *a, double *out) {
    double sum = 0;
    bool mse = a->kind == RK_LOSS_MSE;
    for (int64_t i = 0; i < a->n; i++) {
        int64_t at = i * a->n_tasks + a->task;
        if (a->optional && isnan(a->labels[at])) {
            if (a->gradient) a->gradient[at] = 0;
            continue;
        }
        double x = a->logits[at], y = rk_smoothed_label(a->labels[at], a->smoothing),
               w = a->weights ? (double)a->weights[i] : 1;
        sum += w * (mse ? (x - y) * (x - y) : rk_cross_entropy_of_logit(x, y));
        double slope = mse ? 2 * (x - y) : rk_sigmoid(x) - y;
        if (a->gradient) a->gradient[at] = (rk_real)(a->scale * w * slope);
    }
    *out = a->scale * sum;
}
