#include "train/evaluate/early_stopping.h"

#include <math.h>

void rk_early_stopping_init(rk_early_stopping *stopping) {
    *stopping = (rk_early_stopping){
        .best = NAN, .plateau_best = NAN, .patience_best = NAN, .learning_rate_factor = 1};
}

void rk_early_stopping_reset_best(rk_early_stopping *p) {
    p->best = p->patience_best = NAN;
    p->best_step = 0;
    p->bad = 0;
}

void rk_early_stopping_reset_plateau(rk_early_stopping *p) {
    p->plateau_best = NAN;
    p->plateau_bad = 0;
}

static bool is_better(double value, double best, bool larger, double min_delta) {
    if (isnan(value)) return false;
    return isnan(best) || (larger ? value > best + min_delta : value < best - min_delta);
}

bool rk_early_stopping_stops(const rk_early_stopping *p, const rk_early_stopping_rules *rules) {
    return rules->stops && p->bad > 0 && p->bad >= rules->patience;
}

rk_early_stopping_decision rk_early_stopping_decide(rk_early_stopping *p,
                                                    const rk_early_stopping_rules *rules, int64_t step,
                                                    double watched, double plateau) {
    rk_early_stopping_decision decision = {.best = is_better(watched, p->best, rules->larger_is_better, 0)};
    bool is_enough = is_better(watched, p->patience_best, rules->larger_is_better, rules->min_delta);
    p->n_evaluations++;
    p->last_step = step;
    if (!isnan(watched)) p->bad = is_enough ? 0 : p->bad + 1;
    if (is_enough) p->patience_best = watched;
    if (decision.best) {
        p->best = watched;
        p->best_step = step;
    }
    if (is_better(plateau, p->plateau_best, rules->plateau_larger, 0)) {
        p->plateau_best = plateau;
        p->plateau_bad = 0;
    } else if (!isnan(plateau) && ++p->plateau_bad > rules->plateau_patience && rules->drops &&
               p->learning_rate_factor * rules->factor >= rules->min_factor) {
        p->learning_rate_factor *= rules->factor;
        p->plateau_bad = 0;
        decision.dropped = true;
    }
    decision.stop = rk_early_stopping_stops(p, rules);
    return decision;
}
