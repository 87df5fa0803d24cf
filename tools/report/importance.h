/* Permutation importance: how much a metric loses when a feature's values are permuted between samples. L.
 * Breiman, "Random Forests", Machine Learning 45, 2001; for any model: A. Fisher, C. Rudin, F. Dominici,
 * JMLR 20(177), 2019. */
#ifndef RK_REPORT_IMPORTANCE_H
#define RK_REPORT_IMPORTANCE_H

#include "report/predicted_samples.h"

typedef struct rk_importance_options {
    int32_t n_repeats; /* permutations of each feature; their mean is the importance */
    uint64_t seed;
} rk_importance_options;

/* The loss of AUC for binary tasks, the rise of RMSE for others; NaN where the metric is not defined. */
typedef struct rk_importance {
    int32_t n_features, n_tasks;
    char **names;              /* [n_features] */
    double *mean, *low, *high; /* [n_features, n_tasks] over the permutations */
} rk_importance;

/* Of every feature of the run file, categorical and dense. A sample's ids of a feature move together, with
 * their weights; other features made of the same column (buckets, crosses) stay. The permutations follow from
 * the seed alone. */
rk_status rk_importance_measure(rk_predictor *predictor, const rk_samples *samples,
                                const rk_importance_options *options, rk_importance *out);
void rk_importance_release(rk_importance *importance);

#endif
