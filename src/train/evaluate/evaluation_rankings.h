/* Evaluation of a two_tower (docs/retrieval.md): all items are ranked for each user of a dataset. */
#ifndef RK_TRAIN_EVALUATE_EVALUATION_RANKINGS_H
#define RK_TRAIN_EVALUATE_EVALUATION_RANKINGS_H

#include "model/model.h"
#include "train/evaluate/evaluation_values.h"
#include "train/config/run_config.h"

/* Metrics of rankings beside those that the run file shows, by their numbers. */
typedef struct rk_more_rankings {
    const int *metrics; /* [n] */
    size_t n;
    double *values; /* [n], written */
} rk_more_rankings;

/* What is known of the users, and so left out of a split's rankings: pairs of the training data, and where
 * neither is being measured, of the validation data; NULL: nothing. The caller frees it. */
rk_status rk_load_known_interactions(rk_config *config, const char *split, rk_interactions **out);

/* `split`: what the dataset was opened as. more: NULL: none. */
rk_status rk_evaluate_rankings(rk_config *config, rk_model *model, rk_dataset *dataset, const char *split,
                               const rk_more_rankings *more, rk_evaluation *out);

#endif
