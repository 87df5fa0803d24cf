/* The local batch: the samples of a batch that a rank trains on or predicts. */
#ifndef RK_MODEL_STEP_LOCAL_BATCH_H
#define RK_MODEL_STEP_LOCAL_BATCH_H

#include "batch/ids.h"
#include "model/model_internal.h"

/* The inputs of a two_tower's loss beside its vectors. */
struct rk_pairs {
    int64_t n, step;
    int32_t *ids;   /* [n + n_sampled]: numbers of the pairs' items, then of the sampled ones */
    float *weights; /* [n], if weighted */
    bool weighted;
    size_t ids_capacity, weights_capacity;
};

/* A trainer's samples of a batch: a view, or a copy if batches wait in a queue while the reader continues. */
struct rk_local_batch {
    rk_batch batch;       /* first_row is the local batch's */
    int64_t total, base;  /* samples of the whole batch, and the number of the first one here */
    double *task_samples; /* [n_tasks]: of the whole batch, as rk_model_run */
    rk_ids *ids;          /* [n_lookups] */
    rk_ids *features;     /* [n_batch_features] */
    rk_pairs pairs;       /* of a two_tower: the whole batch's */
    bool copies;
    rk_id_list *lists; /* [n_batch_features]: copies, or a view's offsets */
    struct rk_local_batch_column {
        float *values;
        size_t capacity;
    } columns[3]; /* copies of dense numbers, labels, sample weights */
};

/* Takes samples first .. first+n-1 of the whole batch, which must be in rank_batch. labelled: with labels
 * and weights. */
rk_status rk_local_batch_fill(const rk_model *model, const rk_rank_batch *rank_batch, int64_t first,
                              int64_t n, bool labelled, rk_local_batch *local_batch);
rk_status rk_local_batch_init(const rk_model *model, bool copies, rk_local_batch *local_batch);
void rk_local_batch_release(const rk_model *model, rk_local_batch *local_batch);

#endif
