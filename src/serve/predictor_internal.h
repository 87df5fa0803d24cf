/* Inside a predictor: for those who look at more than its answers. */
#ifndef RK_SERVE_PREDICTOR_INTERNAL_H
#define RK_SERVE_PREDICTOR_INTERNAL_H

#include <reckon/predictor.h>

#include "data/dataset/dataset.h"
#include "train/evaluate/evaluation.h"

struct rk_predictor {
    rk_comm *comm; /* NULL: one process */
    rk_pool *pool; /* NULL: the process's */
    rk_export_rows rows;
    char *path;
    rk_config *config;
    rk_model *model;
    rk_evaluation evaluation; /* the last one */
};

/* Rows of a batch where the caller does not say: as evaluations have it. */
int64_t rk_predictor_batch_size(const rk_predictor *predictor);
/* Over ranks: that the first one was asked for the same. Collective. */
rk_status rk_predictor_check_same(const rk_predictor *predictor, const char *text);
/* One row's [n_tasks]; RK_NOT_FINITE names the row and the task. */
rk_status rk_predictor_check_finite(const rk_predictor *predictor, int64_t row, const float *predictions);

#endif
