/* Metrics over a whole evaluation: add batches, then compute. Equations: docs/metrics.md. */
#ifndef RK_METRICS_METRICS_H
#define RK_METRICS_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "kernels/inline/metric_rules.h"

/* X(name, for binary tasks, for regression, larger is better) */
#define RK_METRIC_LIST(X)          \
    X(auc, 1, 0, 1)                \
    X(logloss, 1, 0, 0)            \
    X(normalized_entropy, 1, 0, 0) \
    X(calibration, 1, 0, 0)        \
    X(gauc, 1, 0, 1)               \
    X(accuracy, 1, 0, 1)           \
    X(rmse, 0, 1, 0)               \
    X(mae, 0, 1, 0)

/* One task's predictions. */
typedef struct rk_metrics rk_metrics;
/* optional: a sample whose label is NaN has none, and takes no part. */
rk_status rk_metrics_create(bool binary, bool optional, rk_metrics **out);
void rk_metrics_free(rk_metrics *metrics);
/* n predictions (probabilities for binary) and labels, `stride` values apart; weights [n] or NULL; groups [n]
 * or NULL. A prediction that is not finite is RK_NOT_FINITE naming the row; for binary tasks, labels and
 * predictions outside [0, 1] are refused too. On failure nothing is added. */
rk_status rk_metrics_add(rk_metrics *metrics, int64_t n, const float *predictions, const float *labels,
                         int64_t stride, const float *weights, const int64_t *groups);
/* Who sums elsewhere, on a GPU: samples [n], n >= 1, and groups [n] or NULL, to what the task's kind has of
 * the parts; the rest stays as it is. RK_NO_MEMORY: not so many, so the metrics do. */
typedef rk_status rk_metrics_offload_function(void *context, bool binary, int64_t n,
                                              const rk_metric_sample *samples, const int64_t *groups,
                                              rk_metric_totals *out);
void rk_metrics_set_offload(rk_metrics *metrics, rk_metrics_offload_function *function,
                            void *context); /* NULL: nobody, as at first */
/* Metric i of RK_METRIC_LIST; NaN where undefined or not for this kind of task. */
rk_status rk_metrics_compute(rk_metrics *metrics, double *values); /* [RK_METRIC_COUNT] */

enum {
#define RK_METRIC_ENUM(name, binary, regression, larger) RK_METRIC_##name,
    RK_METRIC_LIST(RK_METRIC_ENUM)
#undef RK_METRIC_ENUM
        RK_METRIC_COUNT
};
const char *rk_metric_name(int metric);
int rk_metric_find(const char *name); /* -1 if there is none */
bool rk_metric_larger_is_better(int metric);
bool rk_metric_applies(int metric, bool binary);

/* Retrieval: for one user, `scores` [n_items] with `masked` items (ascending ids, taken out of the ranking)
 * against `relevant` items (ascending). Equal scores rank by the smaller item. NaN where no relevant item is
 * left unmasked. For several cuts in one pass: out[n_ks]. */
typedef struct rk_ranking_metrics {
    double recall, ndcg, hit;
} rk_ranking_metrics;
rk_status rk_ranking_metrics_at_ks(const float *scores, int64_t n_items, const int64_t *masked,
                                   int64_t n_masked, const int64_t *relevant, int64_t n_relevant,
                                   const int32_t *ks, size_t n_ks, rk_ranking_metrics *out);
/* The k best of the scores, without `excluded` items (ascending): items [k], of which *n are there, the best
 * first; equal scores rank by the smaller item. */
rk_status rk_rank_top_k(const float *scores, int64_t n_items, const int64_t *excluded, int64_t n_excluded,
                        int64_t k, int64_t *items, int64_t *n);
/* Where another has counted them: positions [n_relevant] of the relevant items among those that are not
 * masked, from 0 on, in any order; UINT32_MAX: masked itself. */
rk_status rk_ranking_metrics_from_positions(const uint32_t *positions, int64_t n_relevant, const int32_t *ks,
                                            size_t n_ks, rk_ranking_metrics *out);

/* A metric of rankings as a number beyond those of RK_METRIC_LIST, by its name: "recall@20", "ndcg@10",
 * "hit@5"; -1: it is none. */
int rk_ranking_metric_find(const char *name);
void rk_ranking_metric_name(int metric, char *out, size_t out_bytes);
int32_t rk_ranking_metric_k(int metric);
double rk_ranking_metric_value(int metric, const rk_ranking_metrics *ranking);

#endif
