/* AUC of predictions that are on a GPU. */
#ifndef RK_NN_DEVICE_AUC_H
#define RK_NN_DEVICE_AUC_H

#include "cuda/auc.h"

typedef struct rk_device_auc rk_device_auc;

/* For up to `capacity` samples at once. */
rk_status rk_device_auc_create(rk_device *device, int64_t capacity, rk_device_auc **out);
void rk_device_auc_free(rk_device_auc *auc);
/* args->n <= capacity; args->auc is NULL: the result comes to *out, when it is there. */
rk_status rk_device_auc_compute(rk_device_auc *auc, rk_stream *stream, const rk_cuda_auc_args *args, double *out);

#endif
