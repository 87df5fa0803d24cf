/* Losses of retrieval (nn/candidate_loss.h) on a GPU: scores are a matrix product, a piece of the samples at
 * a time. */
#ifndef RK_NN_CUDA_DEVICE_CANDIDATE_LOSS_H
#define RK_NN_CUDA_DEVICE_CANDIDATE_LOSS_H

#include "cuda/device/device.h"
#include "nn/candidate_loss.h"

typedef struct rk_device_candidate_loss rk_device_candidate_loss;

typedef struct rk_device_candidate_loss_options {
    bool tf32;              /* products may be multiplied so */
    int64_t scores_at_once; /* 0: as many as take 256 MB */
} rk_device_candidate_loss_options;

/* config: the part about micro-batches is not read. */
rk_status rk_device_candidate_loss_create(rk_device *device, const rk_candidate_loss_config *config,
                                          const rk_device_candidate_loss_options *options,
                                          rk_device_candidate_loss **out);
void rk_device_candidate_loss_free(rk_device_candidate_loss *loss);

/* As rk_candidate_loss_args, all pointers to device memory. Rows first .. last-1 alone have a loss and give
 * gradients: those of other users stay as they are. */
typedef struct rk_device_candidate_loss_args {
    int64_t n, first, last;
    const float *users, *items;
    const int32_t *ids;
    const float *log_q;   /* or NULL */
    const float *weights; /* [n] */
    const double *scale;  /* one */
    float *user_gradient, *item_gradient;
    double *loss;             /* one */
    uint32_t *stop, stop_bit; /* *stop |= stop_bit if it is not finite */
} rk_device_candidate_loss_args;
void rk_device_candidate_loss_run(rk_device_candidate_loss *loss, rk_stream *stream,
                                  const rk_device_candidate_loss_args *args);

#endif
