/* The table that puts runs side by side: what they are, what they reached, and where their settings
 * differ. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/text/find_text.h"
#include "base/text/text.h"
#include "base/text/markup_escape.h"
#include "report/chart/chart.h"
#include "report/report_internal.h"
#include "report/chart/svg.h"

enum { CELL_BYTES = 64 };

static void begin_group_of_rows(const char *title, size_t n, rk_buffer *out) {
    rk_buffer_printf(out, "<tr class=\"group\"><th colspan=\"%zu\">", n + 1);
    rk_markup_escape(title, out);
    rk_buffer_append_text(out, "</th></tr>\n");
}

static void begin_row(const char *label, rk_buffer *out) {
    rk_buffer_append_text(out, "<tr><th>");
    rk_markup_escape(label, out);
    rk_buffer_append_text(out, "</th>");
}

static void write_cell(const char *class_name, const char *text, rk_buffer *out) {
    rk_buffer_printf(out, "<td%s%s%s>", class_name ? " class=\"" : "", class_name ? class_name : "",
                     class_name ? "\"" : "");
    rk_markup_escape(text, out);
    rk_buffer_append_text(out, "</td>");
}

static void write_table_head(const rk_report_run *runs, size_t n, rk_buffer *out) {
    rk_buffer_append_text(out, "<thead><tr><th></th>");
    for (size_t r = 0; r < n; r++) {
        rk_buffer_printf(out, "<th class=\"run\"><i class=\"swatch c%zu\"></i>", r % RK_CHART_COLOURS);
        rk_markup_escape(runs[r].name, out);
        rk_buffer_append_text(out, "</th>");
    }
    rk_buffer_append_text(out, "</tr></thead>\n<tbody>\n");
}

static void format_with_digit_groups(double value, char *out) {
    char digits[32];
    if (!isfinite(value)) {
        snprintf(out, CELL_BYTES, "-");
        return;
    }
    int n = rk_snprintf(digits, sizeof digits, "%.0f", value), k = 0;
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0 && digits[i - 1] != '-') out[k++] = ',';
        out[k++] = digits[i];
    }
    out[k] = 0;
}

static void format_duration(double seconds, char *out) {
    long s = lround(seconds);
    if (seconds < 60)
        rk_snprintf(out, CELL_BYTES, "%.1f s", seconds);
    else if (s < 3600)
        snprintf(out, CELL_BYTES, "%ld min %02ld s", s / 60, s % 60);
    else
        snprintf(out, CELL_BYTES, "%ld h %02ld min", s / 3600, s / 60 % 60);
}

static void write_run_rows(const rk_report_run *runs, size_t n, rk_buffer *out) {
    static const char *const labels[] = {"model", "parameters",     "epochs",
                                         "steps", "samples a step", "training time"};
    for (int row = 0; row < 6; row++) {
        begin_row(labels[row], out);
        for (size_t r = 0; r < n; r++) {
            char text[CELL_BYTES] = "-";
            const char *setting =
                rk_settings_find(&runs[r].settings, row == 0 ? "model.kind" : "train.batch_size");
            if (row == 1) format_with_digit_groups((double)runs[r].n_parameters, text);
            if (row == 2) format_with_digit_groups(runs[r].n_epochs, text);
            if (row == 3) format_with_digit_groups(runs[r].n_steps, text);
            if (row == 5) format_duration(runs[r].seconds, text);
            write_cell(NULL, row == 0 || row == 4 ? (setting ? setting : "-") : text, out);
        }
        rk_buffer_append_text(out, "</tr>\n");
    }
}

/* How far a value is from the best there can be: less is better. NaN is worst. */
static double distance_from_best(int metric, double value) {
    if (isnan(value)) return INFINITY;
    if (metric == RK_METRIC_calibration) return fabs(value - 1);
    return rk_metric_larger_is_better(metric) ? -value : value;
}

/* One metric of all runs, the best in bold where there are several to choose from. */
static void write_metric_row(const char *label, int metric, const double *values, size_t n, rk_buffer *out) {
    double best = INFINITY;
    size_t n_values = 0;
    for (size_t r = 0; r < n; r++) {
        best = fmin(best, distance_from_best(metric, values[r]));
        n_values += isfinite(values[r]) != 0;
    }
    begin_row(label, out);
    for (size_t r = 0; r < n; r++) {
        char text[CELL_BYTES];
        rk_snprintf(text, sizeof text, isnan(values[r]) ? "-" : "%.5f", values[r]);
        write_cell(n_values > 1 && distance_from_best(metric, values[r]) == best ? "best" : NULL, text, out);
    }
    rk_buffer_append_text(out, "</tr>\n");
}

static bool any_finite(const double *values, size_t n) {
    for (size_t r = 0; r < n; r++)
        if (isfinite(values[r])) return true;
    return false;
}

/* Metrics of the split, of one task. */
static void write_task_rows(const rk_report_run *runs, size_t n, const char *task, bool named, double *values,
                            rk_buffer *out) {
    for (int m = 0; m < RK_METRIC_COUNT; m++) {
        for (size_t r = 0; r < n; r++) {
            const rk_report_task *found = rk_report_find_task(&runs[r], task, NULL);
            values[r] = found ? found->metrics[m] : NAN;
        }
        char label[300];
        snprintf(label, sizeof label, "%s%s%s", named ? task : "", named ? " " : "", rk_metric_name(m));
        if (any_finite(values, n)) write_metric_row(label, m, values, n, out);
    }
}

static double find_ranking_metric(const rk_report_run *run, const char *name) {
    const struct rk_report_metric *metric = RK_FIND_BY(name, name, run->ranking.shown, run->ranking.n_shown);
    return metric ? metric->value : NAN;
}

/* Metrics of rankings that the runs' files show, each once. */
static rk_status collect_ranking_names(const rk_report_run *runs, size_t n, rk_report_names *names) {
    for (size_t r = 0; r < n; r++)
        for (int32_t i = 0; i < runs[r].ranking.n_shown; i++)
            RK_TRY(rk_report_names_add(names, runs[r].ranking.shown[i].name));
    return RK_OK;
}

static void write_ranking_rows(const rk_report_run *runs, size_t n, const rk_report_names *names,
                               double *values, rk_buffer *out) {
    for (size_t i = 0; i < names->n; i++) {
        for (size_t r = 0; r < n; r++) values[r] = find_ranking_metric(&runs[r], names->names[i]);
        write_metric_row(names->names[i], rk_ranking_metric_find(names->names[i]), values, n, out);
    }
}

/* The best evaluation in the log, or the last test. */
static double find_best_logged(const rk_report_run *run, const char *kind, const char *key, int metric) {
    const rk_curve *curve = rk_run_metrics_log_find_curve(&run->record, key);
    if (!curve || !curve->n) return NAN;
    if (strcmp(kind, "test") == 0) return curve->values[curve->n - 1];
    int64_t best = rk_curve_find_best(curve, rk_metric_larger_is_better(metric));
    return best < 0 ? NAN : curve->values[best];
}

static void write_logged_ranking_rows(const rk_report_run *runs, size_t n, const char *kind,
                                      const rk_report_names *names, double *values, rk_buffer *out) {
    for (size_t i = 0; i < names->n; i++) {
        char key[320];
        snprintf(key, sizeof key, "%s/%s", kind, names->names[i]);
        int metric = rk_ranking_metric_find(names->names[i]);
        for (size_t r = 0; r < n; r++)
            values[r] = runs[r].ranks ? find_best_logged(&runs[r], kind, key, metric) : NAN;
        if (any_finite(values, n)) write_metric_row(names->names[i], metric, values, n, out);
    }
}

/* A run of one task leaves its name out of the log. */
static double find_logged_value(const rk_report_run *run, const char *kind, const char *task, int metric) {
    char key[320];
    bool named = run->n_tasks > 1;
    if (!rk_report_find_task(run, task, NULL)) return NAN;
    snprintf(key, sizeof key, "%s/%s%s%s", kind, named ? task : "", named ? "/" : "", rk_metric_name(metric));
    return find_best_logged(run, kind, key, metric);
}

/* What the log says of a task: the best evaluation of each metric, or the last test. */
static void write_logged_rows(const rk_report_run *runs, size_t n, const char *kind, const char *task,
                              bool named, double *values, rk_buffer *out) {
    for (int m = 0; m < RK_METRIC_COUNT; m++) {
        if (m == RK_METRIC_calibration && strcmp(kind, "valid") == 0)
            continue; /* there is no best one along a run */
        char label[300];
        snprintf(label, sizeof label, "%s%s%s", named ? task : "", named ? " " : "", rk_metric_name(m));
        for (size_t r = 0; r < n; r++) values[r] = find_logged_value(&runs[r], kind, task, m);
        if (any_finite(values, n)) write_metric_row(label, m, values, n, out);
    }
}

static void write_metric_groups(const rk_report_run *runs, size_t n, const rk_report_names *tasks,
                                const rk_report_names *rankings, const char *split, double *values,
                                rk_buffer *out) {
    static const struct {
        const char *kind, *title;
    } logs[] = {{"valid", "best of each metric while training, on validation data"},
                {"test", "test data, at the end of training"}};
    char title[600];
    int64_t n_rows = 0;
    bool named = tasks->n > 1;
    for (size_t r = 0; r < n; r++) n_rows = runs[r].n_rows > n_rows ? runs[r].n_rows : n_rows;
    char count[CELL_BYTES];
    format_with_digit_groups((double)n_rows, count);
    snprintf(title, sizeof title, "%s data, %s samples, with the run's final parameters", split, count);
    if (n_rows) begin_group_of_rows(title, n, out);
    for (size_t k = 0; n_rows && k < tasks->n; k++)
        write_task_rows(runs, n, tasks->names[k], named, values, out);
    write_ranking_rows(runs, n, rankings, values, out);
    for (int i = 0; i < 2; i++) {
        if (n_rows && strcmp(split, "test") == 0 && strcmp(logs[i].kind, split) == 0)
            continue; /* which stands above */
        size_t before = out->n_bytes;
        begin_group_of_rows(logs[i].title, n, out);
        size_t empty = out->n_bytes;
        for (size_t k = 0; k < tasks->n; k++)
            write_logged_rows(runs, n, logs[i].kind, tasks->names[k], named, values, out);
        write_logged_ranking_rows(runs, n, logs[i].kind, rankings, values, out);
        if (out->n_bytes == empty) out->n_bytes = before;
    }
}

static rk_status write_settings_group(const rk_report_run *runs, size_t n, rk_buffer *out) {
    RK_AUTOFREE rk_settings *settings = NULL;
    RK_AUTO(rk_text_list_release) rk_text_list keys = {0};
    RK_TRY(rk_alloc(n, sizeof *settings, &settings)); /* views: the runs own them */
    for (size_t r = 0; r < n; r++) settings[r] = runs[r].settings;
    RK_TRY(rk_settings_list_differing(settings, n, &keys));
    if (keys.n) begin_group_of_rows("settings that differ", n, out);
    for (size_t k = 0; k < keys.n; k++) {
        begin_row(keys.texts[k], out);
        for (size_t r = 0; r < n; r++) {
            RK_AUTO(rk_buffer_release) rk_buffer value = {0};
            rk_settings_write_value(settings, n, r, keys.texts[k], &value);
            write_cell(value.n_bytes ? NULL : "none", value.n_bytes ? value.data : "not set", out);
            RK_TRY(value.status);
        }
        rk_buffer_append_text(out, "</tr>\n");
    }
    return RK_OK;
}

rk_status rk_report_write_table(const rk_report_run *runs, size_t n, const rk_report_names *tasks,
                                const char *split, rk_buffer *out) {
    RK_AUTOFREE double *values = NULL;
    RK_AUTO(rk_report_names_release) rk_report_names rankings = {0};
    RK_TRY(rk_alloc(n, sizeof *values, &values));
    rk_buffer_append_text(out, "<div class=\"wide\"><table>\n");
    write_table_head(runs, n, out);
    write_run_rows(runs, n, out);
    RK_TRY(collect_ranking_names(runs, n, &rankings));
    write_metric_groups(runs, n, tasks, &rankings, split, values, out);
    RK_TRY(write_settings_group(runs, n, out));
    rk_buffer_append_text(out, "</tbody></table></div>\n");
    return RK_OK;
}
