/* Losses of a batch's tasks and their gradients on a GPU, as nn/loss.h and the model's tasks have them; and
 * predictions. */
#ifndef RK_NN_CUDA_DEVICE_LOSS_H
#define RK_NN_CUDA_DEVICE_LOSS_H

#include "cuda/device/device.h"
#include "nn/loss.h"

typedef struct rk_device_tasks rk_device_tasks;

typedef struct rk_device_task {
    rk_loss_kind kind;
    bool optional;    /* labels may be absent (NaN) */
    double smoothing; /* of labels */
    bool learned;     /* its weight is, by log_variances */
} rk_device_task;

rk_status rk_device_tasks_create(rk_device *device, int32_t n_tasks, const rk_device_task *tasks,
                                 rk_device_tasks **out);
void rk_device_tasks_free(rk_device_tasks *tasks);

/* All pointers are to device memory. */
typedef struct rk_device_loss_args {
    int64_t n;
    const float *logits;  /* [n, n_tasks] */
    float *gradient;      /* [n, n_tasks] */
    const float *labels;  /* [n, n_tasks] */
    const float *weights; /* [n] or NULL */
    const double *scales; /* [n_tasks]: the task's weight in this step over wholes; 0 where that is 0 */
    const double *shares; /* [n_tasks]: the part of the weight of the batch's samples that these have: 1 where
                             they are all of them */
    const float *log_variances;   /* [n, n_tasks], every sample's the same; NULL: no weights are learned */
    float *log_variance_gradient; /* [n, n_tasks] */
    double *losses;               /* [n_tasks], out: their sum is the batch's loss */
    uint32_t *stop, stop_bit;     /* *stop |= stop_bit where a loss is not finite */
} rk_device_loss_args;

void rk_device_compute_losses(rk_device_tasks *tasks, rk_stream *stream, const rk_device_loss_args *args);
void rk_device_compute_predictions(
    rk_device_tasks *tasks, rk_stream *stream, int64_t n, const float *logits,
    float *out); /* [n, n_tasks]: probabilities, or the logits of regressions */

#endif
