/* A step's launches, given to a stream one by one until batches of one size follow each other, and from then on all at once. */
#ifndef RK_MODEL_DEVICE_LAUNCHES_H
#define RK_MODEL_DEVICE_LAUNCHES_H

#include "cuda/device.h"

/* What launches depend on but the values in the device's memory. */
typedef struct rk_launch_size {
    int64_t n;              /* samples */
    uint64_t generation;    /* of the memory that they are about: another number, other places */
} rk_launch_size;

typedef struct rk_kept_launches {
    rk_launch_graph *graph; /* of this size; NULL: none yet */
    rk_launch_size size, last;
} rk_kept_launches;

/* Gives the stream what `give` gives it for a batch of size.n samples. `give` must give the same for the same size, and neither allocate nor wait. */
rk_status rk_kept_launches_run(rk_kept_launches *kept, rk_stream *stream, rk_launch_size size, void (*give)(void *context, int64_t n), void *context);
void rk_kept_launches_release(rk_kept_launches *kept);

#endif
