/* The metrics of a model over a dataset. */
#ifndef RK_TRAIN_EVALUATE_EVALUATION_H
#define RK_TRAIN_EVALUATE_EVALUATION_H

#include "train/evaluate/evaluation_values.h"
#include "train/source/batch_source.h"
#include "train/config/run_config.h"

enum { RK_USUAL_CUT = 20 }; /* of rankings, where the run file names no metrics: recall@20 and the like */

/* Whether a run's log has the metric: what the run file names or what is usual, and of rankings what the run
 * uses. */
bool rk_evaluation_shows_metric(const rk_config *config, int task, int metric);

/* Takes what is fed from its beginning to its end. */
rk_status rk_evaluate(rk_config *config, rk_model *model, rk_batch_source *source, rk_evaluation *out);

#endif
