/* The trials in order, and as a table. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "tune/tune_internal.h"

bool rk_tune_is_better(const rk_tune *t, double a, double b) {
    if (isnan(a)) return false;
    return isnan(b) || (t->larger_is_better ? a > b : a < b);
}

/* What a trial ranks by: only whole trainings count. */
static double value_to_rank_by(const rk_trial *trial) {
    return trial->state == RK_TRIAL_done ? trial->best : NAN;
}

static rk_status sort_trials(const rk_tune *t, int64_t **out) {
    int64_t *order;
    RK_TRY(rk_alloc((size_t)t->n_trials, sizeof *order, &order));
    for (int64_t i = 0; i < t->n_trials; i++) {
        int64_t at = i; /* equal ones stay in the order in which they were tried */
        for (; at > 0 && rk_tune_is_better(t, value_to_rank_by(&t->trials[i]),
                                           value_to_rank_by(&t->trials[order[at - 1]]));
             at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    *out = order;
    return RK_OK;
}

static int find_widest_value(const rk_tune *t, size_t k) {
    size_t most = strlen(t->space.keys[k].key);
    for (int64_t i = 0; i < t->n_trials; i++)
        if (strlen(t->trials[i].values[k]) > most) most = strlen(t->trials[i].values[k]);
    return (int)most;
}

static void write_trial_row(const rk_tune *t, const rk_trial *trial, int width, rk_buffer *out) {
    rk_buffer_printf(out, "%-*s", 10, trial->name);
    for (size_t k = 0; k < t->space.n; k++)
        rk_buffer_printf(out, "  %*s", find_widest_value(t, k), trial->values[k]);
    if (trial->state == RK_TRIAL_done)
        rk_buffer_printf(out, "  %*.5f  %7.0f  %7.1f\n", width, trial->best, trial->step, trial->seconds);
    else
        rk_buffer_printf(out, "  %*s  %7s  %7s  %s%s\n", width, "-", "-", "-",
                         rk_trial_state_names[trial->state], trial->error ? ":" : "");
    if (trial->error) rk_buffer_printf(out, "%*s%s\n", 12, "", trial->error);
}

rk_status rk_tune_to_text(const rk_tune *t, char **out) {
    RK_AUTOFREE int64_t *order = NULL;
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    RK_TRY(sort_trials(t, &order));
    int width = strlen(t->metric) > 8 ? (int)strlen(t->metric) : 8;
    rk_buffer_printf(&text, "%-*s", 10, "trial");
    for (size_t k = 0; k < t->space.n; k++)
        rk_buffer_printf(&text, "  %*s", find_widest_value(t, k), t->space.keys[k].key);
    rk_buffer_printf(&text, "  %*s  %7s  %7s\n", width, t->metric, "step", "seconds");
    for (int64_t i = 0; i < t->n_trials; i++) write_trial_row(t, &t->trials[order[i]], width, &text);
    return rk_buffer_detach(&text, out);
}
