/* A two_tower's loss on a GPU: over the whole batch, whose samples may be on several. */
#ifndef RK_MODEL_CUDA_DEVICE_RETRIEVAL_H
#define RK_MODEL_CUDA_DEVICE_RETRIEVAL_H

#include "model/cuda/device_step_internal.h"

rk_status rk_device_retrieval_create(rk_model *model, const rk_model_device *options);
void rk_device_retrieval_free(rk_device_step *step);
/* From the vectors of the n samples here to their gradients, and the loss, or this rank's part of it, to
 * step->found. */
void rk_device_retrieval_loss(rk_model *model, const rk_device_batch *batch, int64_t n);

#endif
