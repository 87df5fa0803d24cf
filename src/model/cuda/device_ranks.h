/* Several GPUs, one a rank. Each trainer has its local batch. The GPUs exchange rows and gradients, and
 * all_reduce dense gradients and step statuses. */
#ifndef RK_MODEL_CUDA_DEVICE_RANKS_H
#define RK_MODEL_CUDA_DEVICE_RANKS_H

#include "model/cuda/cuda_engine_internal.h"

/* Of this rank's GPU: those of a host from `first` on, one after the other. */
int32_t rk_device_ranks_choose_gpu(const rk_model *model, int32_t first);
rk_status rk_device_ranks_create(rk_model *model, uint64_t budget_bytes);
void rk_device_ranks_free(rk_model *model);
void rk_device_ranks_all_reduce(void *model, rk_stream *stream, float *values,
                                int64_t n); /* rk_device_graph_options.sum */

#endif
