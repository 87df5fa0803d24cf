/* What a run logged while it trained: its metrics.jsonl as curves over steps. */
#ifndef RK_REPORT_RUN_METRICS_LOG_H
#define RK_REPORT_RUN_METRICS_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* The values of one key of entries of one kind: "train/loss", "valid/auc", "valid/click/auc". */
typedef struct rk_curve {
    char *name;
    double *steps, *values; /* [n]; NaN where a value was not defined */
    size_t n, steps_capacity, values_capacity;
} rk_curve;

typedef struct rk_run_metrics_log {
    rk_curve *curves; /* [n] */
    size_t n, capacity;
} rk_run_metrics_log;

/* `directory`: the run's. RK_NOT_FOUND if it holds no metrics.jsonl; RK_BAD_DATA names the line that is
 * damaged. */
rk_status rk_run_metrics_log_read(const char *directory, rk_run_metrics_log *out);
void rk_run_metrics_log_release(rk_run_metrics_log *record);
const rk_curve *rk_run_metrics_log_find_curve(const rk_run_metrics_log *record,
                                              const char *name); /* NULL: there is none */

/* The best of the curve's values: its place, or -1 if none is finite. */
int64_t rk_curve_find_best(const rk_curve *curve, bool larger_is_better);

#endif
