/* Learning curves: what the runs logged, over their steps. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "report/chart/chart.h"
#include "report/report_internal.h"

enum { MOST_POINTS = 400 };

/* A curve's points as they are drawn; long ones as means of so many neighbours. */
typedef struct thinned {
    double *x, *y;
    size_t n;
} thinned;

static rk_status downsample_curve(const rk_curve *curve, thinned *out) {
    size_t together = (curve->n + MOST_POINTS - 1) / MOST_POINTS;
    thinned t = {0};
    RK_TRY(rk_alloc(MOST_POINTS + 1, 2 * sizeof *t.x, &t.x));
    t.y = t.x + MOST_POINTS + 1;
    for (size_t i = 0; i < curve->n; i += together, t.n++) {
        size_t end = i + together < curve->n ? i + together : curve->n;
        for (size_t k = i; k < end; k++) t.y[t.n] += curve->values[k] / (double)(end - i);
        t.x[t.n] = curve->steps[end - 1];
    }
    *out = t;
    return RK_OK;
}

/* The lines of one chart: those of a curve of all runs, and of another, pale, behind. */
typedef struct lines {
    rk_series *series; /* [2 * n] */
    thinned *points;   /* [2 * n] */
    size_t n;
} lines;

static void curve_lines_release(lines *l) {
    for (size_t i = 0; i < l->n; i++) rk_free(l->points[i].x);
    RK_FREE_ALL(l->points, l->series);
}

static rk_status add_line_of_run(lines *l, const rk_report_run *run, size_t number, const char *name,
                                 rk_series_kind kind) {
    const rk_curve *curve = rk_run_metrics_log_find_curve(&run->record, name);
    if (!curve) return RK_OK;
    thinned *points = &l->points[l->n];
    RK_TRY(downsample_curve(curve, points));
    rk_series *series = &l->series[l->n++];
    *series = (rk_series){.name = run->name,
                          .kind = kind,
                          .colour = (int)(number % RK_CHART_COLOURS),
                          .n = points->n,
                          .x = points->x,
                          .y = points->y};
    int metric = rk_report_metric_of_logged_name(name);
    if (metric < 0 || metric == RK_METRIC_calibration || points->n != curve->n) return RK_OK;
    int64_t best = rk_curve_find_best(curve, rk_metric_larger_is_better(metric));
    series->has_mark = best >= 0;
    series->mark = best >= 0 ? (size_t)best : 0;
    return RK_OK;
}

static rk_status draw_learning_curve(const rk_report_run *runs, size_t n, const char *title, const char *name,
                                     const char *behind, rk_buffer *out) {
    RK_AUTO(curve_lines_release) lines l = {0};
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(2 * n, l.series), RK_ARRAY(2 * n, l.points)));
    for (size_t r = 0; r < n; r++) {
        if (behind) RK_TRY(add_line_of_run(&l, &runs[r], r, behind, RK_SERIES_PALE));
        RK_TRY(add_line_of_run(&l, &runs[r], r, name, RK_SERIES_LINE));
    }
    rk_report_figure_begin(out);
    rk_chart chart = {.title = title,
                      .width = 480,
                      .height = 250,
                      .x = {.title = "steps", .is_whole = true},
                      .series = l.series,
                      .n_series = l.n};
    rk_chart_draw(&chart, 0, 0, out);
    rk_report_figure_end(NULL, out);
    return RK_OK;
}

static bool is_metric_name(const char *name) {
    return strncmp(name, "valid/", 6) == 0 && rk_report_metric_of_logged_name(name) >= 0;
}

/* Keys of dynamic tables: what the log has of them (docs/dynamic_tables.md). */
static rk_status draw_curves_of_dynamic_keys(const rk_report_run *runs, size_t n, rk_buffer *out) {
    static const struct {
        const char *name, *title;
    } curves[] = {{"train/dynamic_rows", "dynamic tables: rows"},
                  {"train/dynamic_admitted", "dynamic tables: keys admitted"},
                  {"train/dynamic_evicted", "dynamic tables: keys evicted"},
                  {"train/dynamic_refused", "dynamic tables: uses in training without a row"},
                  {"valid/dynamic_missing", "dynamic tables: uses in validation without a row"}};
    for (size_t i = 0; i < sizeof curves / sizeof *curves; i++) {
        bool any = false;
        for (size_t r = 0; r < n; r++)
            any |= rk_run_metrics_log_find_curve(&runs[r].record, curves[i].name) != NULL;
        if (any) RK_TRY(draw_learning_curve(runs, n, curves[i].title, curves[i].name, NULL, out));
    }
    return RK_OK;
}

static rk_status draw_learning_curves(const rk_report_run *runs, size_t n, const rk_report_names *metrics,
                                      rk_buffer *out) {
    bool has_logloss = false;
    for (size_t i = 0; i < metrics->n; i++)
        has_logloss = has_logloss || strcmp(metrics->names[i], "valid/logloss") == 0;
    /* Where there is one binary task both are the same thing measured on other data: what lies between them
     * is what the model learnt by heart. */
    if (has_logloss)
        RK_TRY(draw_learning_curve(runs, n, "loss: training (pale) and validation", "valid/logloss",
                                   "train/loss", out));
    else
        RK_TRY(draw_learning_curve(runs, n, "training loss", "train/loss", NULL, out));
    for (size_t i = 0; i < metrics->n; i++) {
        char title[300];
        snprintf(title, sizeof title, "validation %s", metrics->names[i] + strlen("valid/"));
        RK_TRY(draw_learning_curve(runs, n, title, metrics->names[i], NULL, out));
    }
    return RK_OK;
}

rk_status rk_report_write_learning_section(const rk_report_run *runs, size_t n, rk_buffer *out) {
    RK_AUTO(rk_report_names_release) rk_report_names metrics = {0};
    for (size_t r = 0; r < n; r++)
        for (size_t i = 0; i < runs[r].record.n; i++)
            if (is_metric_name(runs[r].record.curves[i].name))
                RK_TRY(rk_report_names_add(&metrics, runs[r].record.curves[i].name));
    rk_buffer_append_text(out, "<h2>Learning curves</h2>\n");
    rk_report_write_legend(runs, n, NULL, out);
    rk_buffer_append_text(out, "<div class=\"charts\">\n");
    RK_TRY(draw_learning_curves(runs, n, &metrics, out));
    RK_TRY(draw_curves_of_dynamic_keys(runs, n, out));
    rk_buffer_append_text(out, "</div>\n<p class=\"note\">A ring is a run's best evaluation.</p>\n");
    return RK_OK;
}
