/* The metrics of a model over a dataset. */
#ifndef RK_TRAIN_EVALUATION_H
#define RK_TRAIN_EVALUATION_H

#include "train/evaluation_values.h"
#include "train/feed.h"
#include "train/run_config.h"

/* Takes what is fed from its beginning to its end. */
rk_status rk_evaluate(const rk_config *config, rk_model *model, rk_feed *feed, rk_evaluation *out);

#endif
