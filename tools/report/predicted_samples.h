/* Samples of a split that are kept in memory, and what a model says of them. */
#ifndef RK_REPORT_PREDICTED_SAMPLES_H
#define RK_REPORT_PREDICTED_SAMPLES_H

#include <reckon/predictor.h>

#include "batch/ids.h"
#include "report/prediction_curves.h"

typedef struct rk_samples {
    int64_t n, n_tasks, batch_size; /* batch_size: that they are predicted in */
    int32_t n_dense, n_features;
    float *dense, *labels, *weights; /* [n, n_dense]; [n, n_tasks]; [n], or NULL */
    float *predictions;              /* [n, n_tasks] */
    rk_id_list *features;            /* [n_features] */
    size_t dense_capacity, labels_capacity, weights_capacity, predictions_capacity;
} rk_samples;

/* The split's first rows, up to max_rows (0: all of them), with their predictions. The predictor must outlive
 * them. RK_BAD_DATA if there are no labels. */
rk_status rk_samples_collect(rk_predictor *predictor, const char *split, int64_t max_rows, rk_samples *out);
void rk_samples_release(rk_samples *samples);

/* One task's samples that have a label, as arrays of their own, under `predictions` [n_rows, n_tasks]. */
rk_status rk_samples_select_task(const rk_samples *samples, const float *predictions, int32_t task,
                                 rk_predicted *out);
void rk_predicted_release(rk_predicted *predicted);
/* All metrics of it [RK_METRIC_COUNT], but GAUC, whose groups are not kept. */
rk_status rk_predicted_compute_metrics(const rk_predicted *predicted, bool binary, double *values);

#endif
