/* The engine of a GPU (model/step/engine.h). Rows, parameters and their slots are on the device. The model's
 * own, in host memory, are up to date after flush. */
#ifndef RK_MODEL_CUDA_CUDA_ENGINE_H
#define RK_MODEL_CUDA_CUDA_ENGINE_H

#include "model/cuda/gpu_options.h"
#include "model/step/engine.h"

/* The model is whole but for it; one that was built for prediction has no gradients there either. Errors:
 * RK_UNSUPPORTED (no GPU, an operation that has no version for it), RK_INVALID_ARGUMENT (no such GPU),
 * RK_NO_MEMORY. */
rk_status rk_cuda_engine_create(rk_model *model, const rk_model_device *options);
/* RK_UNSUPPORTED: what several GPUs do not do; with the reason. */
rk_status rk_device_ranks_check_supported(const rk_model *model, int64_t staleness);

#endif
