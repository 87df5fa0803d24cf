/* A two_tower's loss on a GPU: over the whole batch, whose samples may be on several GPUs. */
#ifndef RK_MODEL_CUDA_DEVICE_RETRIEVAL_H
#define RK_MODEL_CUDA_DEVICE_RETRIEVAL_H

#include "model/cuda/cuda_engine_internal.h"

rk_status rk_device_retrieval_create(rk_model *model, const rk_model_device *options);
void rk_device_retrieval_free(rk_cuda_engine *d);

#endif
