#include "data/dataset/label_drift.h"

#include <math.h>

#include "base/log.h"

/* Means of shuffled rows differ by more than this allows once in 10^9 windows, by Bernstein's inequality,
 * which holds for rare labels and small windows too. By less than a quarter of the labels' standard deviation
 * they may differ for good reasons (of a day, of a file), which more rows always make significant. */
static const double most_exponent = 21, deviations_apart = 0.25;

static bool have_drifted(const rk_label_sums *before, const rk_label_sums *now) {
    double n = before->n + now->n, mean = (before->sum + now->sum) / n;
    double variance = fmax((before->squares + now->squares) / n - mean * mean, 0);
    double range = fmax(before->most, now->most) - fmin(before->least, now->least);
    double apart = fabs(before->sum / before->n - now->sum / now->n), few = 1 / (1 / before->n + 1 / now->n);
    return few * apart * apart > most_exponent * (2 * variance + 2.0 / 3 * range * apart) &&
           apart > deviations_apart * sqrt(variance);
}

static rk_label_sums sum_labels(const rk_window *w, int32_t task) {
    rk_label_sums sums = {.least = INFINITY, .most = -INFINITY};
    for (int64_t i = 0; i < w->n_rows; i++) {
        double y = (double)w->labels[i * w->schema->n_tasks + task];
        if (isnan(y)) continue;
        sums.n += 1;
        sums.sum += y;
        sums.squares += y * y;
        sums.least = y < sums.least ? y : sums.least;
        sums.most = y > sums.most ? y : sums.most;
    }
    return sums;
}

static void warn_of_drift(const rk_window *w, int32_t task, const rk_label_sums *before,
                          const rk_label_sums *now, const char *path) {
    const rk_label_section *label = &w->schema->tasks[task];
    rk_log(RK_LOG_WARNING,
           "'%s': the mean of label '%s' is %.3g in rows %lld to %lld, but %.3g before: the rows seem "
           "sorted, and training on sorted rows gives a worse model\n"
           "hint: shuffle the files' rows, or set data.shuffle_window to more rows",
           path, label->name ? label->name : label->column, now->sum / now->n, (long long)w->first_row + 1,
           (long long)(w->first_row + w->n_rows), before->sum / before->n);
}

void rk_label_drift_check_window(rk_label_drift *d, const rk_window *w, const char *path) {
    for (int32_t t = 0; w->has.labels && t < w->schema->n_tasks && t < RK_DRIFT_TASKS && !d->has_warned;
         t++) {
        rk_label_sums *before = &d->tasks[t], now = sum_labels(w, t);
        if (now.n <= 0) continue;
        d->has_warned = before->n > 0 && have_drifted(before, &now);
        if (d->has_warned) warn_of_drift(w, t, before, &now, path);
        now.least = before->n > 0 ? fmin(before->least, now.least) : now.least;
        now.most = before->n > 0 ? fmax(before->most, now.most) : now.most;
        *before = (rk_label_sums){before->n + now.n, before->sum + now.sum, before->squares + now.squares,
                                  now.least, now.most};
    }
}
