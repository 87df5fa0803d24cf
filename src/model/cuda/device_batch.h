/* A batch's numbers, all but ids, in pinned memory and, once uploaded, at the same offsets in device memory.
 */
#ifndef RK_MODEL_CUDA_DEVICE_BATCH_H
#define RK_MODEL_CUDA_DEVICE_BATCH_H

#include "cuda/device/device.h"
#include "model/step/local_batch.h"

/* Offsets in bytes. */
typedef struct rk_device_batch_layout {
    size_t dense;   /* float [max_here, n_dense] */
    size_t lengths; /* float [max_here, n_sequences] */
    size_t labels;  /* float [max_batch, n_tasks] */
    size_t pairs;   /* int32 [max_batch + drawn]: of a two_tower: items of the pairs, then the sampled ones;
                       none   in other models */
    size_t log_q;   /* float [max_batch + drawn]: of those (rk_retrieval_log_q_of_candidates) */
    size_t weights; /* float [max_batch]: 1 where the batch has none */
    size_t scales;  /* double [n_tasks]: each task's weight at this step over that of its samples; 0 where it
                       has none */
    size_t wholes;  /* double [n_tasks]: the weight of the whole batch's samples */
    size_t shares;  /* double [n_tasks]: the part of it that is here */
    size_t
        step; /* int64 [2]: of dropout's masks, and the number in the whole batch of the first sample here */
    size_t n_bytes;
    int32_t n_sequences;
} rk_device_batch_layout;
rk_device_batch_layout rk_device_batch_layout_make(const rk_model *model);

typedef struct rk_device_batch {
    char *host, *device;
    int64_t n_pairs; /* of a two_tower: of the whole batch, without sampled items */
    rk_batch view;   /* of the pinned copy: what messages speak of when the caller's batch is gone */
} rk_device_batch;

rk_status rk_device_batch_init(const rk_device_batch_layout *layout, rk_device *device,
                               rk_device_batch *batch);
void rk_device_batch_release(rk_device *device, rk_device_batch *batch);

/* A local batch's numbers, up to the device. Nothing of an earlier use may be under way. labelled: for
 * training, with labels, or with the pairs of a two_tower. */
void rk_device_batch_upload(const rk_device_batch_layout *layout, const rk_model *model,
                            const rk_local_batch *from, bool labelled, rk_stream *upload,
                            rk_device_batch *to);
/* What follows from the number of the step that the batch is used in: scales and step, up on the step's own
 * stream. */
void rk_device_batch_set_step_values(const rk_device_batch_layout *layout, const rk_model *model,
                                     rk_stream *stream, rk_device_batch *batch);

#endif
