/* One task: the ROC curve and calibration. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text/text.h"
#include "report/chart/chart.h"
#include "report/report_internal.h"
#include "report/chart/axis_scale.h"

enum { SIZE = 480 };

static rk_status draw_roc_curves(const rk_report_run *runs, size_t n, const char *name, rk_buffer *out) {
    RK_AUTOFREE rk_series *series = NULL;
    size_t n_series = 0;
    RK_TRY(rk_alloc(n, sizeof *series, &series));
    for (size_t r = 0; r < n; r++) {
        const rk_report_task *task = rk_report_find_task(&runs[r], name, NULL);
        if (!task || !task->roc.n) continue;
        series[n_series++] = (rk_series){.name = runs[r].name,
                                         .kind = RK_SERIES_CURVE,
                                         .colour = (int)(r % RK_CHART_COLOURS),
                                         .n = task->roc.n,
                                         .x = task->roc.false_rates,
                                         .y = task->roc.true_rates};
    }
    rk_report_figure_begin(out);
    rk_chart chart = {.title = "ROC curve: positives found",
                      .width = SIZE,
                      .height = SIZE,
                      .x = {.title = "negatives taken for positives", .is_fixed = true, .high = 1},
                      .y = {.is_fixed = true, .high = 1},
                      .series = series,
                      .n_series = n_series,
                      .has_diagonal = true};
    rk_chart_draw(&chart, 0, 0, out);
    rk_report_figure_end(
        "For each threshold, the share of positives above it over the share of negatives above it. The area "
        "below is the AUC; the diagonal is chance.",
        out);
    return RK_OK;
}

/* Bins as columns of numbers. */
typedef struct bin_columns {
    double *predicted, *observed, *low, *high;
    char (*texts)[128];
    const char **notes;
} bin_columns;

static void bin_columns_release(bin_columns *c) {
    RK_FREE_ALL(c->predicted, c->observed, c->low, c->high, c->texts, c->notes);
}

static rk_status bin_columns_of_task(const rk_report_task *task, bin_columns *c) {
    size_t n = task->n_bins;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n, c->predicted), RK_ARRAY(n, c->observed), RK_ARRAY(n, c->low),
                        RK_ARRAY(n, c->high), RK_ARRAY(n, c->texts), RK_ARRAY(n, c->notes)));
    for (size_t i = 0; i < n; i++) {
        const rk_bin *bin = &task->bins[i];
        c->predicted[i] = bin->predicted;
        c->observed[i] = bin->observed;
        c->low[i] = bin->low;
        c->high[i] = bin->high;
        rk_snprintf(c->texts[i], sizeof c->texts[i],
                    "%lld samples: predicted %.4g, observed %.4g (%.4g to %.4g)", (long long)bin->n,
                    bin->predicted, bin->observed, bin->low, bin->high);
        c->notes[i] = c->texts[i];
    }
    return RK_OK;
}

/* Both axes have the same range, so that the diagonal is what it says. */
static rk_axis make_common_axis(const rk_series *series, size_t n, bool binary) {
    rk_range range = RK_RANGE_INIT;
    if (binary) rk_range_add(&range, 0, false);
    for (size_t s = 0; s < n; s++)
        for (size_t i = 0; i < series[s].n; i++) {
            rk_range_add(&range, series[s].x[i], false);
            rk_range_add(&range, series[s].low[i], false);
            rk_range_add(&range, series[s].high[i], false);
        }
    rk_scale scale = rk_scale_fit(range, false, 0.03, 0, 1);
    return (rk_axis){
        .is_fixed = true,
        .low = binary ? 0 : scale.low,
        .high = binary && scale.high > 0.5 ? 1 : scale.high}; /* rare positives fill the picture too */
}

static void draw_calibration_of_series(const rk_series *series, size_t n_series, bool binary, int64_t n_bin,
                                       rk_buffer *out) {
    rk_axis axis = make_common_axis(series, n_series, binary);
    rk_chart chart = {.title = binary ? "Calibration: share of positives" : "Calibration: mean label",
                      .width = SIZE,
                      .height = SIZE,
                      .x = axis,
                      .y = axis,
                      .series = series,
                      .n_series = n_series,
                      .has_diagonal = true};
    chart.x.title = "mean prediction";
    rk_report_figure_begin(out);
    rk_chart_draw(&chart, 0, 0, out);
    char caption[500];
    snprintf(caption, sizeof caption,
             "Samples in bins of about %lld by their prediction (equal predictions together). On the "
             "diagonal, what was predicted is what happened; the bars are where the "
             "true mean of a bin may be, with 95%% confidence.",
             (long long)n_bin);
    rk_report_figure_end(caption, out);
}

static rk_status draw_calibration_curves(const rk_report_run *runs, size_t n, const char *name,
                                         rk_buffer *out) {
    RK_AUTOFREE rk_series *series = NULL;
    bin_columns *columns = NULL;
    size_t n_series = 0;
    int64_t n_bin = 0;
    bool binary = true;
    rk_status status;
    RK_GOTO(RK_ALLOC_ALL(RK_ARRAY(n, series), RK_ARRAY(n, columns)));
    for (size_t r = 0; r < n; r++) {
        const rk_report_task *task = rk_report_find_task(&runs[r], name, NULL);
        if (!task || !task->n_bins) continue;
        binary = task->binary;
        n_bin = n_bin ? n_bin : task->bins[0].n;
        RK_GOTO(bin_columns_of_task(task, &columns[r]));
        series[n_series++] = (rk_series){.name = runs[r].name,
                                         .colour = (int)(r % RK_CHART_COLOURS),
                                         .n = task->n_bins,
                                         .x = columns[r].predicted,
                                         .y = columns[r].observed,
                                         .low = columns[r].low,
                                         .high = columns[r].high,
                                         .notes = columns[r].notes};
    }
    draw_calibration_of_series(series, n_series, binary, n_bin, out);
done:
    for (size_t r = 0; columns && r < n; r++) bin_columns_release(&columns[r]);
    rk_free(columns);
    return status;
}

rk_status rk_report_write_task_section(const rk_report_run *runs, size_t n, const char *name,
                                       rk_buffer *out) {
    RK_AUTOFREE char(*notes)[32] = NULL;
    bool binary = false;
    RK_TRY(rk_alloc(n, sizeof *notes, &notes));
    for (size_t r = 0; r < n; r++) {
        const rk_report_task *task = rk_report_find_task(&runs[r], name, NULL);
        if (!task) continue;
        binary = binary || task->binary;
        rk_snprintf(notes[r], sizeof notes[r], task->binary ? "AUC %.4f" : "RMSE %.4f",
                    task->metrics[task->binary ? RK_METRIC_auc : RK_METRIC_rmse]);
    }
    rk_report_write_legend(runs, n, notes, out);
    rk_buffer_append_text(out, "<div class=\"charts\">\n");
    if (binary) RK_TRY(draw_roc_curves(runs, n, name, out));
    RK_TRY(draw_calibration_curves(runs, n, name, out));
    rk_buffer_append_text(out, "</div>\n");
    return RK_OK;
}
