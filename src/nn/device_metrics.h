/* AUC by a GPU. */
#ifndef RK_NN_DEVICE_AUC_H
#define RK_NN_DEVICE_AUC_H

#include "cuda/auc.h"

/* Of samples [n, 3] in the host's memory: prediction, label, weight; NaN if all labels are of one kind. Waits for the result; takes about 80 bytes a sample of the GPU's memory
 * meanwhile, and is RK_NO_MEMORY without them. */
rk_status rk_device_auc(rk_device *device, rk_stream *stream, int64_t n, const float *samples, double *out);

#endif
