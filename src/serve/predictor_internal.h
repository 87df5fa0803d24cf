/* Inside a predictor: for those who look at more than its answers. */
#ifndef RK_SERVE_PREDICTOR_INTERNAL_H
#define RK_SERVE_PREDICTOR_INTERNAL_H

#include <reckon/predictor.h>

#include "data/dataset/dataset.h"
#include "train/checkpoint/external_rows.h"
#include "train/evaluate/evaluation.h"

struct rk_predictor {
    rk_comm *comm;
    rk_comm *self; /* the same where the caller gives none */
    rk_pool *pool; /* NULL: the process's */
    rk_export_rows rows;
    rk_row_reading reading;
    char *path;
    rk_config *config;
    rk_model *model;
    rk_evaluation evaluation; /* the last one */
};

/* Rows of a batch where the caller does not say: as evaluations have it. */
int64_t rk_predictor_batch_size(const rk_predictor *predictor);
/* The run's section for a file whose rows are counted: bad ones are not skipped, unless rows are drawn from
 * train, which have no numbers of their own. */
void rk_predictor_section_without_skips(const rk_predictor *predictor, const char *split,
                                        rk_data_section *out);
/* Of a read by that section: what the run file says of bad rows is not heeded. Returns status. */
rk_status rk_predictor_hint_rows_not_skipped(const rk_data_section *section, const rk_predictor *predictor,
                                             rk_status status);
/* Over ranks: that the first one was asked for the same. Collective. */
rk_status rk_predictor_check_same_on_ranks(const rk_predictor *predictor, const char *text);
static inline bool rk_predictor_is_first_rank(const rk_predictor *predictor) { /* of its ranks */
    return rk_comm_rank(predictor->comm) == 0;
}
/* One row's [n_tasks]; RK_NOT_FINITE names the row and the task. */
rk_status rk_predictor_check_predictions_finite(const rk_predictor *predictor, int64_t row,
                                                const float *predictions);

#endif
