/* A batch that is built feature by feature: the data's own samples, and more behind them. */
#ifndef RK_MODEL_RETRIEVAL_RETRIEVAL_BATCH_H
#define RK_MODEL_RETRIEVAL_RETRIEVAL_BATCH_H

#include <stddef.h>

#include <reckon/batch.h>

#include "base/error.h"
#include "batch/ids.h"

typedef struct rk_retrieval_batch {
    rk_id_list *lists; /* [n_features] */
    rk_ids *features;  /* [n_features]: views of the lists */
    int32_t n_features;
    float *dense;
    size_t dense_capacity;
    rk_batch batch;
} rk_retrieval_batch;

void rk_retrieval_batch_release(rk_retrieval_batch *batch);

/* Samples first .. first+n-1 of `like` with n_more behind: dense numbers are copied, 0 for those; features,
 * of which there is one more, always as many, are still to be filled in; no labels, no weights. Zeros are an
 * empty batch. */
rk_status rk_retrieval_batch_begin(rk_retrieval_batch *batch, const rk_batch *like, int64_t first, int64_t n,
                                   int64_t n_more);
rk_status rk_retrieval_batch_append_ids(rk_retrieval_batch *batch, int32_t feature, const rk_ids *from,
                                        int64_t first, int64_t n);
rk_status rk_retrieval_batch_add_id(rk_retrieval_batch *batch, int32_t feature, int64_t id);
/* The next sample has the ids that were added since the one before it ended. */
rk_status rk_retrieval_batch_end_sample(rk_retrieval_batch *batch, int32_t feature);
rk_batch rk_retrieval_batch_view(rk_retrieval_batch *batch); /* views */

#endif
