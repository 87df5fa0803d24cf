/* A model over ranks whose GPUs compute it, one rank a GPU: what a step on a GPU (device_step.c) does beside
 * that of a single one. Each trainer has its share of the batch; rows and gradients go between GPUs, the sums
 * of dense gradients and what was found too. */
#ifndef RK_MODEL_CUDA_DEVICE_DATA_PARALLEL_H
#define RK_MODEL_CUDA_DEVICE_DATA_PARALLEL_H

#include "cuda/device/device.h"
#include "model/step/data_parallel.h"

/* RK_UNSUPPORTED: what several GPUs do not do; with the reason. */
rk_status rk_device_data_parallel_check(const rk_model *model);
int32_t rk_device_data_parallel_number(
    const rk_model *model,
    int32_t first); /* of this rank's GPU: those of a host from `first` on, one after the other */
rk_status rk_device_data_parallel_create(rk_model *model, uint64_t budget_bytes);
void rk_device_data_parallel_free(rk_model *model);
void rk_device_data_parallel_sum(void *model, rk_stream *stream, float *values,
                                 int64_t n); /* rk_device_graph_options.sum */
/* A training step from the step status on: they are joined, dense gradients summed, rows and parameters
 * updated unless somebody's stops it. */
rk_status rk_device_data_parallel_end_step(rk_model *model);
/* What the hosts tell each other beside a step: asks to stop, bytes. */
rk_status rk_device_data_parallel_begin_control(rk_model *model);
rk_status rk_device_data_parallel_end_control(rk_model *model);

#endif
