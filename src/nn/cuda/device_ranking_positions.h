/* Positions of items in users' rankings, by a GPU: scores are products of vectors, a block of users at a
 * time. */
#ifndef RK_NN_CUDA_DEVICE_RANKING_POSITIONS_H
#define RK_NN_CUDA_DEVICE_RANKING_POSITIONS_H

#include "cuda/metrics/ranking_positions.h"
#include "nn/ranking_positions.h"

/* In f32, always. scores_at_once: 0: as many as 256 MB take, or fewer where there is less room. Waits for the
 * result. Errors: RK_NOT_FINITE names the first user and item; RK_NO_MEMORY: the GPU has no room for the
 * items' vectors and one user's scores. */
rk_status rk_device_compute_ranking_positions(rk_device *device, rk_stream *stream,
                                              const rk_ranking_positions *args, int64_t scores_at_once);

#endif
