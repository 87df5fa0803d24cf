/* What one task's predictions look like: the ROC curve and calibration by bins. */
#ifndef RK_REPORT_PREDICTION_CURVES_H
#define RK_REPORT_PREDICTION_CURVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* One task's samples. */
typedef struct rk_predicted {
    size_t n;
    const float *predictions, *labels; /* [n] */
    const float *weights;              /* [n] or NULL */
} rk_predicted;

/* Points of the ROC curve from (0, 0) to (1, 1): the share of negatives and of positives at or above each
 * prediction. */
typedef struct rk_roc {
    size_t n;                         /* 0 where there is one class only */
    double *false_rates, *true_rates; /* [n] */
} rk_roc;
/* A point that lies nearer than `resolution` to the one before, both ways, is left out; 0 keeps one for each
 * different prediction. Labels between 0 and 1 are partly both, as for AUC. */
rk_status rk_roc_curve_make(const rk_predicted *predicted, double resolution, rk_roc *out);
void rk_roc_curve_release(rk_roc *roc);

typedef struct rk_bin {
    int64_t n;
    double predicted, observed; /* means, weighted */
    double low, high;           /* 95% of where the rate that was observed may lie */
} rk_bin;
/* At most n_bins bins [*n_out] of about as many samples each, in the order of the predictions; equal
 * predictions are in one bin. Free *out with rk_free. The range is Wilson's (E. B. Wilson, J. Am. Stat.
 * Assoc. 22, 1927) for a binary task, else the mean with 1.96 standard errors. */
rk_status rk_calibration_bins_make(const rk_predicted *predicted, bool binary, size_t n_bins, rk_bin **out,
                                   size_t *n_out);

#endif
