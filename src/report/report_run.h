/* One run, looked at: its log, its settings, and what its parameters make of a split. */
#ifndef RK_REPORT_REPORT_RUN_H
#define RK_REPORT_REPORT_RUN_H

#include <reckon/report.h>

#include "metrics/metrics.h"
#include "report/importance.h"
#include "report/run_record.h"
#include "report/settings.h"

typedef struct rk_report_task {
    char *name;
    bool binary;
    double metrics[RK_METRIC_COUNT]; /* of the split's samples */
    rk_roc roc;
    rk_bin *bins; /* [n_bins] */
    size_t n_bins;
} rk_report_task;

typedef struct rk_report_run {
    char *name;            /* the directory's last part */
    rk_run_record record;
    rk_settings settings;
    uint64_t n_parameters;
    double n_steps, n_epochs, seconds; /* as logged; seconds of training, without pauses between resumed parts */
    int64_t n_rows;        /* samples of the split; 0: it has none, and the tasks only names */
    rk_report_task *tasks; /* [n_tasks] */
    int32_t n_tasks;
    rk_importance importance; /* no features: not measured */
} rk_report_run;

rk_status rk_report_run_open(const char *directory, const rk_report_options *options, rk_report_run *out);
void rk_report_run_release(rk_report_run *run);

#endif
