/* Metrics of a task's predictions by a GPU. */
#ifndef RK_NN_CUDA_DEVICE_METRICS_H
#define RK_NN_CUDA_DEVICE_METRICS_H

#include "cuda/metrics/metrics.h"

/* Of samples [n] and groups [n] (or NULL: no GAUC) in the host's memory; what the task's kind has not stays
 * as it is. Waits for the result; takes up to about 90 bytes a sample of the GPU's memory meanwhile, and is
 * RK_NO_MEMORY without them. */
rk_status rk_device_compute_metrics(rk_device *device, rk_stream *stream, bool binary, int64_t n,
                                    const rk_metric_sample *samples, const int64_t *groups,
                                    rk_metric_totals *out);

#endif
