/* A step's launches, given to a stream one by one until batches of one size follow each other, and from then on all at once. */
#ifndef RK_MODEL_CUDA_LAUNCH_CACHE_H
#define RK_MODEL_CUDA_LAUNCH_CACHE_H

#include "cuda/device/device.h"

typedef struct rk_kept_launches {
    rk_launch_graph *graph; /* of batches of n samples; NULL: none yet */
    int64_t n, last_n;
} rk_kept_launches;

/* Gives the stream what `give` gives it for a batch of n samples. `give` must give the same for the same n, and neither allocate nor wait. */
rk_status rk_kept_launches_run(rk_kept_launches *kept, rk_stream *stream, int64_t n, void (*give)(void *context, int64_t n), void *context);
void rk_kept_launches_release(rk_kept_launches *kept);

#endif
