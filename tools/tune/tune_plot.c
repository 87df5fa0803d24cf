/* tune.svg: the best so far over the trials, and the metric against each key. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text/text.h"
#include "report/chart/chart.h"
#include "report/chart/svg.h"
#include "tune/tune_internal.h"

enum { WIDTH = 420, HEIGHT = 260, GAP = 36, MARGIN = 24, TOP = 56, COLUMNS = 2 };

/* Room for what a panel shows. */
typedef struct panel {
    double *x, *y, *best; /* [n_trials] */
    const char **notes;   /* [n_trials] */
} panel;

static void panel_release(panel *p) {
    RK_FREE_ALL(p->x, p->notes);
}

static rk_status panel_init(const rk_tune *t, panel *p) {
    size_t n = (size_t)t->n_trials;
    RK_TRY(rk_alloc(3 * n, sizeof *p->x, &p->x));
    p->y = p->x + n;
    p->best = p->y + n;
    RK_TRY(rk_alloc(n, sizeof *p->notes, &p->notes));
    for (size_t i = 0; i < n; i++) {
        p->y[i] = t->trials[i].state == RK_TRIAL_done ? t->trials[i].best : NAN;
        p->best[i] = i && !rk_tune_is_better(t, p->y[i], p->best[i - 1]) ? p->best[i - 1] : p->y[i];
        p->notes[i] = t->trials[i].settings;
    }
    return RK_OK;
}

static size_t find_best_trial(const rk_tune *t, const panel *p) {
    size_t best = 0;
    for (size_t i = 1; i < (size_t)t->n_trials; i++)
        if (rk_tune_is_better(t, p->y[i], p->y[best])) best = i;
    return best;
}

static rk_series make_series_of_trials(const rk_tune *t, const panel *p) {
    return (rk_series){.name = "a trial",
                       .kind = RK_SERIES_POINTS,
                       .n = (size_t)t->n_trials,
                       .x = p->x,
                       .y = p->y,
                       .notes = p->notes,
                       .has_mark = true,
                       .mark = find_best_trial(t, p)};
}

static void find_panel_position(size_t number, double *x, double *y) {
    *x = MARGIN + (double)(number % COLUMNS) * (WIDTH + GAP);
    *y = TOP + (double)(number / COLUMNS) * (HEIGHT + GAP);
}

static void draw_best_so_far(const rk_tune *t, panel *p, rk_buffer *out) {
    double x, y;
    for (int64_t i = 0; i < t->n_trials; i++) p->x[i] = (double)i + 1;
    rk_series series[] = {{.name = "best so far",
                           .kind = RK_SERIES_STEPS,
                           .colour = 1,
                           .n = (size_t)t->n_trials,
                           .x = p->x,
                           .y = p->best},
                          make_series_of_trials(t, p)};
    rk_chart chart = {.title = "over trials",
                      .width = WIDTH,
                      .height = HEIGHT,
                      .x = {.is_whole = true},
                      .series = series,
                      .n_series = 2,
                      .has_legend = true};
    find_panel_position(0, &x, &y);
    rk_chart_draw(&chart, x, y, out);
}

/* Grids stand side by side in their order, ranges on an axis of numbers. */
static void draw_metric_against_key(const rk_tune *t, size_t k, panel *p, rk_buffer *out) {
    const rk_search_key *key = &t->space.keys[k];
    double x, y;
    for (int64_t i = 0; i < t->n_trials; i++) {
        const char *value = t->trials[i].values[k];
        p->x[i] = NAN;
        for (size_t v = 0; v < key->n_values; v++)
            if (strcmp(key->values[v], value) == 0) p->x[i] = (double)v;
        if (!key->n_values) (void)rk_parse_f64((rk_span){value, strlen(value)}, &p->x[i]);
    }
    rk_series series = make_series_of_trials(t, p);
    char title[300];
    snprintf(title, sizeof title, "by %s", key->key);
    rk_chart chart = {.title = title,
                      .width = WIDTH,
                      .height = HEIGHT,
                      .x = {.log = key->log, .is_whole = key->whole},
                      .series = &series,
                      .n_series = 1};
    if (key->n_values) {
        chart.x.categories = (const char *const *)key->values;
        chart.x.n_categories = key->n_values;
    }
    find_panel_position(k + 1, &x, &y);
    rk_chart_draw(&chart, x, y, out);
}

static void begin_svg(const rk_tune *t, rk_buffer *out) {
    size_t n = t->space.n + 1, n_rows = (n + COLUMNS - 1) / COLUMNS;
    int width = 2 * MARGIN + COLUMNS * WIDTH + (COLUMNS - 1) * GAP,
        height = TOP + (int)n_rows * (HEIGHT + GAP) + 8;
    char title[400];
    const char *slash = strrchr(t->path, '/');
    snprintf(title, sizeof title, "%s of %s on validation data", t->metric, slash ? slash + 1 : t->path);
    rk_buffer_printf(out,
                     "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                     "viewBox=\"0 0 %d %d\">\n<style>\n",
                     width, height, width, height);
    rk_chart_write_style_sheet(out);
    rk_buffer_printf(out,
                     ".head{font-size:17px!important;font-weight:650}\n</style>\n<rect width=\"%d\" "
                     "height=\"%d\" style=\"fill:var(--paper)\"/>\n",
                     width, height);
    rk_svg_write_text("head", MARGIN, 32, "start", title, out);
}

rk_status rk_tune_draw_svg(const rk_tune *t, rk_buffer *out) {
    panel p = {0};
    rk_status status;
    RK_GOTO(panel_init(t, &p));
    begin_svg(t, out);
    draw_best_so_far(t, &p, out);
    for (size_t k = 0; k < t->space.n; k++) draw_metric_against_key(t, k, &p, out);
    rk_buffer_append_text(out, "</svg>\n");
    status = out->status;
done:
    panel_release(&p);
    return status;
}
