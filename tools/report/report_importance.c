/* The features of one task in the order of their importance. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/text/find_text.h"
#include "base/text/text.h"
#include "report/chart/chart.h"
#include "report/report_internal.h"

/* A feature, and its largest importance in any of the runs. */
typedef struct ranked {
    const char *name;
    double most;
    size_t place; /* among the names, for features that are alike */
} ranked;

static int compare_importance(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->most != y->most) return x->most > y->most ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* Where a run has the feature's importance in the task; -1: it has not. */
static int64_t find_importance(const rk_report_run *run, const char *feature, const char *task) {
    int32_t k;
    if (!rk_report_find_task(run, task, &k)) return -1;
    int64_t f = rk_text_position(feature, run->importance.names, (size_t)run->importance.n_features);
    return f < 0 ? -1 : f * run->importance.n_tasks + k;
}

static rk_status collect_features(const rk_report_run *runs, size_t n, rk_report_names *out) {
    for (size_t r = 0; r < n; r++)
        for (int32_t f = 0; f < runs[r].importance.n_features; f++)
            RK_TRY(rk_report_names_add(out, runs[r].importance.names[f]));
    return RK_OK;
}

static rk_status rank_features(const rk_report_run *runs, size_t n, const char *task,
                               const rk_report_names *names, ranked **out) {
    ranked *list;
    RK_TRY(rk_alloc(names->n, sizeof *list, &list));
    for (size_t i = 0; i < names->n; i++) {
        list[i] = (ranked){.name = names->names[i], .most = -INFINITY, .place = i};
        for (size_t r = 0; r < n; r++) {
            int64_t at = find_importance(&runs[r], names->names[i], task);
            if (at >= 0 && !isnan(runs[r].importance.mean[at]))
                list[i].most = fmax(list[i].most, runs[r].importance.mean[at]);
        }
    }
    qsort(list, names->n, sizeof *list, compare_importance);
    *out = list;
    return RK_OK;
}

static rk_status draw_importance_chart(const rk_report_run *runs, size_t n, const char *task,
                                       const ranked *list, size_t n_rows, bool binary, rk_buffer *out) {
    RK_AUTOFREE double *values = NULL;
    RK_AUTOFREE const char **rows = NULL;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(3 * n_rows * n, values), RK_ARRAY(n_rows + n, rows)));
    double *low = values + n_rows * n, *high = low + n_rows * n;
    for (size_t r = 0; r < n; r++) rows[n_rows + r] = runs[r].name;
    for (size_t i = 0; i < n_rows; i++) {
        rows[i] = list[i].name;
        for (size_t r = 0; r < n; r++) {
            int64_t at = find_importance(&runs[r], list[i].name, task);
            values[i * n + r] = at < 0 ? NAN : runs[r].importance.mean[at];
            low[i * n + r] = at < 0 ? NAN : runs[r].importance.low[at];
            high[i * n + r] = at < 0 ? NAN : runs[r].importance.high[at];
        }
    }
    rk_bars bars = {.title = "Importance of features",
                    .axis = binary ? "AUC lost" : "rise of RMSE",
                    .width = 1000,
                    .rows = rows,
                    .n_rows = n_rows,
                    .n_series = n,
                    .series = rows + n_rows,
                    .values = values,
                    .low = low,
                    .high = high};
    rk_bars_draw(&bars, 0, 0, out);
    return RK_OK;
}

rk_status rk_report_write_importance_section(const rk_report_run *runs, size_t n, const char *task,
                                             int32_t n_features, rk_buffer *out) {
    RK_AUTO(rk_report_names_release) rk_report_names names = {0};
    RK_AUTOFREE ranked *list = NULL;
    bool binary = true;
    for (size_t r = 0; r < n; r++) {
        const rk_report_task *found = rk_report_find_task(&runs[r], task, NULL);
        if (found) binary = found->binary;
    }
    RK_TRY(collect_features(runs, n, &names));
    if (!names.n) return RK_OK;
    RK_TRY(rank_features(runs, n, task, &names, &list));
    size_t n_rows = names.n < (size_t)n_features ? names.n : (size_t)n_features;
    rk_report_figure_begin(out);
    RK_TRY(draw_importance_chart(runs, n, task, list, n_rows, binary, out));
    char caption[500], rest[120] = "";
    if (n_rows < names.n)
        rk_snprintf(rest, sizeof rest, " %zu more features are at or below %.4g.", names.n - n_rows,
                    list[n_rows].most);
    snprintf(caption, sizeof caption,
             "What the metric loses when the feature's values are exchanged between samples: the mean of "
             "some permutations, from the least to the most of them a thin line. Features "
             "that say the same share their importance.%s",
             rest);
    rk_report_figure_end(caption, out);
    return RK_OK;
}
