/* What metrics are sums of, a sample at a time, in f64: one source for the CPU and GPUs. Equations:
 * docs/metrics.md. */
#ifndef RK_KERNELS_INLINE_METRIC_RULES_H
#define RK_KERNELS_INLINE_METRIC_RULES_H

#include <math.h>
#include <stdbool.h>

#include "base/device_code.h"

typedef struct rk_metric_sample {
    float prediction, label, weight;
} rk_metric_sample;

/* The sums of a binary task, and of a regression. */
enum { RK_SUM_WEIGHTS, RK_SUM_LOSS, RK_SUM_LABELS, RK_SUM_PREDICTIONS, RK_SUM_RIGHT, RK_METRIC_SUMS };
enum { RK_SUM_SQUARES = 1, RK_SUM_DISTANCES };

/* What all metrics of a task follow from. */
typedef struct rk_metric_totals {
    double auc, gauc; /* of binary tasks; NaN where undefined */
    double sums[RK_METRIC_SUMS];
} rk_metric_totals;

/* -y log p - (1-y) log(1-p); finite at the ends. */
RK_DEVICE_CODE static inline double rk_cross_entropy_of_probability(double label, double p) {
    double inside = fmin(fmax(p, 1e-15), 1 - 1e-15);
    return -(label * log(inside) + (1 - label) * log1p(-inside));
}

RK_DEVICE_CODE static inline void rk_metric_sums_add_sample(double sums[RK_METRIC_SUMS], bool binary,
                                                            rk_metric_sample s) {
    double weight = s.weight, error = (double)s.prediction - s.label;
    sums[RK_SUM_WEIGHTS] += weight;
    if (binary) {
        sums[RK_SUM_LOSS] += weight * rk_cross_entropy_of_probability(s.label, s.prediction);
        sums[RK_SUM_LABELS] += weight * s.label;
        sums[RK_SUM_PREDICTIONS] += weight * s.prediction;
        if ((s.prediction >= 0.5f) == (s.label >= 0.5f)) sums[RK_SUM_RIGHT] += weight;
    } else {
        sums[RK_SUM_SQUARES] += weight * error * error;
        sums[RK_SUM_DISTANCES] += weight * fabs(error);
    }
}

/* The area under a ROC curve, of samples in the order of their predictions. A label between 0 and 1 is partly
 * a positive, partly a negative. */
typedef struct rk_pair_sum {
    double positives, negatives; /* weights below the present tie */
    double ordered;              /* weight of the pairs in the right order, ties by half */
    double tie_positives, tie_negatives;
    float tie; /* the prediction of the present one */
} rk_pair_sum;

RK_DEVICE_CODE static inline void rk_pair_sum_end_tie(rk_pair_sum *c) {
    c->ordered += c->tie_positives * (c->negatives + 0.5 * c->tie_negatives);
    c->positives += c->tie_positives;
    c->negatives += c->tie_negatives;
    c->tie_positives = c->tie_negatives = 0;
}

RK_DEVICE_CODE static inline void rk_pair_sum_add_sample(rk_pair_sum *c, rk_metric_sample s) {
    if (s.prediction != c->tie) rk_pair_sum_end_tie(c);
    c->tie = s.prediction;
    c->tie_positives += (double)s.weight * s.label;
    c->tie_negatives += (double)s.weight * (1 - (double)s.label);
}

/* NaN if positives or negatives have no weight. */
RK_DEVICE_CODE static inline double rk_pair_sum_compute_auc(rk_pair_sum *c) {
    rk_pair_sum_end_tie(c);
    return c->positives > 0 && c->negatives > 0 ? c->ordered / (c->positives * c->negatives) : NAN;
}

#endif
