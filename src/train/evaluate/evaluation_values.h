/* The result of an evaluation. */
#ifndef RK_TRAIN_EVALUATE_EVALUATION_VALUES_H
#define RK_TRAIN_EVALUATE_EVALUATION_VALUES_H

#include <reckon/trainer.h>

#include "metrics/metrics.h"

/* Every metric of every task, and after the last task their means: values[task * RK_METRIC_COUNT + metric];
 * NaN where it does not apply. Of rankings only what is shown. */
typedef struct rk_evaluation {
    int32_t n_tasks;
    int64_t n_rows;
    double *values;
    rk_metric *shown; /* [n_shown] names, its own, and values, as the run file chooses; behind them, with
                         dynamic tables, dynamic_missing: uses of keys that had no row */
    int32_t n_shown;
    size_t shown_capacity;
} rk_evaluation;
void rk_evaluation_release(rk_evaluation *evaluation);
/* One more of those that are shown. */
rk_status rk_evaluation_add_shown_metric(rk_evaluation *evaluation, const char *name, double value);
/* A metric by its number (rk_config_find_metric). */
double rk_evaluation_value(const rk_evaluation *evaluation, int task, int metric);

#endif
