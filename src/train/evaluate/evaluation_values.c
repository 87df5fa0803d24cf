#include "train/evaluate/evaluation_values.h"

#include <math.h>

#include "base/memory.h"

void rk_evaluation_release(rk_evaluation *e) {
    for (int32_t i = 0; i < e->n_shown; i++) rk_free((char *)(size_t)e->shown[i].name);
    RK_FREE_ALL(e->shown, e->values);
    *e = (rk_evaluation){0};
}

rk_status rk_evaluation_add_shown_metric(rk_evaluation *e, const char *name, double value) {
    char *own;
    RK_TRY(rk_reserve_one_more(&e->shown, (size_t)e->n_shown, &e->shown_capacity, sizeof *e->shown));
    RK_TRY(rk_strdup(name, &own));
    e->shown[e->n_shown++] = (rk_metric){own, value};
    return RK_OK;
}

double rk_evaluation_value(const rk_evaluation *e, int task, int metric) {
    if (metric < RK_METRIC_COUNT) return e->values[task * RK_METRIC_COUNT + metric];
    for (int32_t i = 0; i < e->n_shown; i++)
        if (rk_ranking_metric_find(e->shown[i].name) == metric) return e->shown[i].value;
    return NAN;
}
