/* A step's launches: given to a stream one by one until batches of one size follow each other, then all at
 * once as a CUDA graph. */
#ifndef RK_MODEL_CUDA_LAUNCH_CACHE_H
#define RK_MODEL_CUDA_LAUNCH_CACHE_H

#include "cuda/device/device.h"

typedef struct rk_launch_cache {
    rk_launch_graph *graph; /* of batches of n samples; NULL: none yet */
    int64_t n, last_n;
} rk_launch_cache;

/* Gives the stream what `enqueue` gives it for a batch of n samples. `enqueue` must give the same for the
 * same n, and neither allocate nor wait. */
rk_status rk_launch_cache_run(rk_launch_cache *kept, rk_stream *stream, int64_t n,
                              void (*enqueue)(void *context, int64_t n), void *context);
void rk_launch_cache_release(rk_launch_cache *kept);

#endif
