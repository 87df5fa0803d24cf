/* The samples of a batch that this rank has, and which of them it trains on or predicts. */
#ifndef RK_MODEL_STEP_RANK_BATCH_H
#define RK_MODEL_STEP_RANK_BATCH_H

#include <reckon/batch.h>

#include "base/timestamp.h"

typedef struct rk_rank_batch {
    rk_batch batch;             /* of these samples alone */
    int64_t total, base;        /* samples of the whole batch, and the number of the first one here */
    const double *task_samples; /* [n_tasks]: the weight of the whole batch's samples that take part in each
                                   task (rk_loss_sum_weights); NULL if the whole batch is here */
    int64_t timestamp;          /* the whole batch's largest, in microseconds, or RK_NO_TIMESTAMP */
} rk_rank_batch;
static inline rk_rank_batch rk_rank_batch_from_batch(const rk_batch *batch, int64_t timestamp) {
    return (rk_rank_batch){*batch, batch->n, 0, NULL, timestamp};
}

#endif
