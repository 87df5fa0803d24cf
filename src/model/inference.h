/* Predictions by a model that is only read, so that any number of threads predict at once: tables and
 * parameters are the model's, the memory that a batch takes is each inference's. */
#ifndef RK_MODEL_INFERENCE_H
#define RK_MODEL_INFERENCE_H

#include <stdatomic.h>

#include "batch/context_columns.h"
#include "model/model.h"

/* The parameters of a model that was built for prediction no longer change; its graph is made ready once. */
rk_status rk_model_freeze_for_inference(rk_model *model);

typedef struct rk_inference rk_inference;
/* Of a frozen model, which outlives it. n_threads: that its loops run on (rk_graph_inference_create).
 * On a GPU they share its memory there and take turns, and a context is computed in each sample.
 * RK_UNSUPPORTED: the model is over ranks. */
rk_status rk_inference_create(rk_model *model, int n_threads, rk_inference **out);
void rk_inference_free(rk_inference *inference);
/* The bits of rk_model_predict. predictions [batch->n, n_tasks] are undefined after a failure. context: what
 * is the same in all samples, which is then computed once (rk_graph_inference_set_context); NULL: nothing.
 * cancel: may be NULL; once another thread has set it, RK_INTERRUPTED. */
rk_status rk_inference_run(rk_inference *inference, const rk_batch *batch, const rk_context_columns *context,
                           const atomic_bool *cancel, float *predictions);
/* Of a two_tower, as rk_model_user_vectors and rk_model_item_vectors. */
rk_status rk_inference_user_vectors(rk_inference *inference, const rk_batch *batch, const atomic_bool *cancel,
                                    rk_real *out);
rk_status rk_inference_item_vectors(rk_inference *inference, const int64_t *ids, int64_t n,
                                    const atomic_bool *cancel, rk_real *out);

#endif
