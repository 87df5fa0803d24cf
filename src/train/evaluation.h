/* The metrics of a model over a dataset. */
#ifndef RK_TRAIN_EVALUATION_H
#define RK_TRAIN_EVALUATION_H

#include <reckon/trainer.h>

#include "train/feed.h"
#include "train/run_config.h"

/* Every metric of every task, and after the last task their means: values[task * RK_METRIC_COUNT + metric]; NaN where it does not apply. Of rankings only what is
 * shown. */
typedef struct rk_evaluation {
    int32_t n_tasks;
    int64_t n_rows;
    double *values;
    rk_metric *shown;  /* [n_shown] names and values, as the run file chooses */
    char **names;      /* what shown[].name points to */
    int32_t n_shown;
} rk_evaluation;

/* Takes what is fed from its beginning to its end. */
rk_status rk_evaluate(const rk_config *config, rk_model *model, rk_feed *feed, rk_evaluation *out);
/* Of a two_tower (docs/retrieval.md): all items ranked for each user of the dataset; `split`: what it was opened as. */
rk_status rk_evaluate_rankings(const rk_config *config, rk_model *model, rk_dataset *dataset, const char *split, rk_evaluation *out);
/* A metric by its number (rk_config_find_metric). */
double rk_evaluation_value(const rk_evaluation *evaluation, int task, int metric);
void rk_evaluation_release(rk_evaluation *evaluation);

#endif
