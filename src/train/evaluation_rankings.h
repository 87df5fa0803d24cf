/* Of a two_tower (docs/retrieval.md): all items ranked for each user of a dataset. */
#ifndef RK_TRAIN_EVALUATION_RANKINGS_H
#define RK_TRAIN_EVALUATION_RANKINGS_H

#include "model/model.h"
#include "train/evaluation_values.h"
#include "train/run_config.h"

/* `split`: what the dataset was opened as. */
rk_status rk_evaluate_rankings(const rk_config *config, rk_model *model, rk_dataset *dataset, const char *split, rk_evaluation *out);

#endif
