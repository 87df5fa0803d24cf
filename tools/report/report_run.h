/* One run, looked at: its log, its settings, and what its parameters make of a split. */
#ifndef RK_REPORT_REPORT_RUN_H
#define RK_REPORT_REPORT_RUN_H

#include <reckon/experimental/report.h>

#include "metrics/metrics.h"
#include "report/importance.h"
#include "report/run_metrics_log.h"
#include "report/run_settings.h"

typedef struct rk_report_task {
    char *name;
    bool binary;
    double metrics[RK_METRIC_COUNT]; /* of the split's samples */
    rk_roc roc;
    rk_bin *bins; /* [n_bins] */
    size_t n_bins;
} rk_report_task;

/* Of a two_tower: all items ranked for each user of the split. */
enum { RK_REPORT_CUTS = 7, RK_REPORT_RANKINGS = 3 };
extern const int32_t rk_report_cuts[RK_REPORT_CUTS];
extern const char *const rk_report_rankings[RK_REPORT_RANKINGS]; /* "recall", ... */
typedef struct rk_report_ranking {
    struct rk_report_metric {
        char *name;
        double value;
    } * shown; /* [n_shown]: what the run file shows */
    int32_t n_shown;
    double values[RK_REPORT_RANKINGS][RK_REPORT_CUTS]; /* at each cut */
} rk_report_ranking;

typedef struct rk_report_run {
    char *name; /* the directory's last part */
    rk_run_metrics_log record;
    rk_settings settings;
    uint64_t n_parameters;
    double n_steps, n_epochs,
        seconds;    /* as logged; seconds of training, without pauses between resumed parts */
    int64_t n_rows; /* samples of the split; 0: it has none, and the tasks only names */
    bool ranks;     /* a two_tower: a ranking in place of tasks */
    rk_report_ranking ranking;
    rk_report_task *tasks; /* [n_tasks] */
    int32_t n_tasks;
    rk_importance importance; /* no features: not measured */
} rk_report_run;

rk_status rk_report_run_open(const char *directory, const rk_report_options *options, rk_report_run *out);
void rk_report_run_release(rk_report_run *run);

#endif
