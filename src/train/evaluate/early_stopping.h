/* Decisions after evaluations: which one is the best, when to reduce the learning rate, when to stop. Plain
 * numbers, which checkpoints keep. */
#ifndef RK_TRAIN_EVALUATE_EARLY_STOPPING_H
#define RK_TRAIN_EVALUATE_EARLY_STOPPING_H

#include <stdbool.h>
#include <stdint.h>

typedef struct rk_early_stopping {
    double best, plateau_best; /* NaN: none yet */
    double patience_best; /* what an evaluation has to pass, by more than min_delta, for patience to begin
                             anew */
    int64_t best_step, last_step; /* of the best evaluation, of the last; 0: none */
    int64_t bad, plateau_bad;     /* evaluations since a better one */
    double learning_rate_factor;
    int64_t n_evaluations;
} rk_early_stopping;

typedef struct rk_early_stopping_rules {
    bool larger_is_better, plateau_larger;
    bool stops, drops;
    int64_t patience,
        plateau_patience; /* plateau_patience: evaluations that are let pass, as PyTorch counts */
    double min_delta, factor, min_factor;
} rk_early_stopping_rules;

typedef struct rk_early_stopping_decision {
    bool best, dropped, stop;
} rk_early_stopping_decision;

void rk_early_stopping_init(rk_early_stopping *stopping);
/* What follows is no longer compared with what has been: the metric is another one, or the best's parameters
 * are gone. */
void rk_early_stopping_reset_best(rk_early_stopping *stopping);
void rk_early_stopping_reset_plateau(rk_early_stopping *stopping);
/* An evaluation at `step`: watched is the early-stopping metric, plateau the plateau's. NaN is neither better
 * nor worse: it does not count against patience. Training stops at the evaluation that is the `patience`-th
 * in a row without a better one (0 as 1), as Keras and Lightning count. */
bool rk_early_stopping_stops(const rk_early_stopping *stopping, const rk_early_stopping_rules *rules);
rk_early_stopping_decision rk_early_stopping_decide(rk_early_stopping *stopping,
                                                    const rk_early_stopping_rules *rules, int64_t step,
                                                    double watched, double plateau);

#endif
