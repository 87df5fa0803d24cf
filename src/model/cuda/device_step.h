/* A model's training steps and predictions on a GPU. Rows, parameters and their slots are on the device; the
 * model's own in the host's memory are their home, up to date after settle. */
#ifndef RK_MODEL_CUDA_DEVICE_STEP_H
#define RK_MODEL_CUDA_DEVICE_STEP_H

#include "kernels/inline/metric_rules.h"
#include "model/step/batch_part.h"
#include "model/model_internal.h"
#include "nn/cuda/device_item_positions.h"

/* The model is whole; one that was built for prediction has no gradients there either. Errors: RK_UNSUPPORTED
 * (no GPU, an operation that has no version for it), RK_INVALID_ARGUMENT (no such GPU), RK_NO_MEMORY. */
rk_status rk_device_step_create(rk_model *model, const rk_model_device *options);
void rk_device_step_free(rk_model *model);

/* As rk_model_train of a batch whose numbers were checked, and of which the samples here have these ids
 * [n_lookups]; pairs: a two_tower's, else NULL. Where the step is late: of the batch before. */
rk_status rk_device_step_train(rk_model *model, const rk_batch_part *part, const rk_ids *ids,
                               const rk_pairs *pairs, double *loss);
rk_status rk_device_step_drain(rk_model *model, double *loss, bool *left);
/* Samples first .. first+n-1, at most max_batch, whose ids are these; predictions [n, n_tasks]. */
rk_status rk_device_step_predict(rk_model *model, const rk_batch *batch, int64_t first, int64_t n,
                                 const rk_ids *ids, float *predictions);

/* Samples of the batch, at most max_batch, whose ids are these, through the graph: a row that it gives, out
 * [n, cols]. */
rk_status rk_device_step_vectors(rk_model *model, const rk_batch *batch, const rk_ids *ids, rk_value value,
                                 rk_real *out);
/* Between steps. */
rk_status rk_device_step_metrics(rk_model *model, bool binary, int64_t n, const rk_metric_sample *samples,
                                 const int64_t *groups, rk_metric_parts *out);
rk_status rk_device_step_item_positions(rk_model *model, const rk_item_positions *args);

rk_status rk_device_step_flush(rk_model *model);
rk_status rk_device_step_reload(rk_model *model);

#endif
