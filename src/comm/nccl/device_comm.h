/* Communication between the ranks' GPUs, one rank a GPU: between their memories by NCCL, or through host
 * memory and the ranks' communicator if there is no NCCL or ranks share a GPU.
 *
 * Calls add work to one stream, always the same one, in the same order on every rank. Through host memory
 * they also wait for it. The data of a call must stay unchanged until the stream has done it. After a
 * failure every later call fails with it. Thread rule: as the device's. */
#ifndef RK_COMM_NCCL_DEVICE_COMM_H
#define RK_COMM_NCCL_DEVICE_COMM_H

#include "comm/comm.h"
#include "cuda/libraries/nccl.h"

typedef struct rk_device_comm rk_device_comm;

/* All ranks call it. comm must outlive it; nothing else may communicate on its channel RK_CHANNEL_ROWS.
 * RK_NCCL=off in the environment: through the host. */
rk_status rk_device_comm_create(rk_comm *comm, rk_device *device, rk_device_comm **out);
void rk_device_comm_free(rk_device_comm *dc);
int32_t rk_device_comm_ranks_on_gpu(
    const rk_device_comm *dc); /* ranks on this rank's GPU, this one among them */

uint64_t rk_device_comm_bytes_sent(
    const rk_device_comm *dc); /* by NCCL so far; what goes through the host the communicator counts */

/* Messages to and from ranks, this one among them. Between two ranks they match in the order of the lists,
 * and have equal sizes; none is empty. */
rk_status rk_device_comm_all_to_all(rk_device_comm *dc, rk_stream *stream, const rk_device_message *send,
                                    size_t n_send, const rk_device_message *receive, size_t n_receive);
/* values [n]: the sum over the ranks, the same bits on each. */
rk_status rk_device_comm_all_reduce(rk_device_comm *dc, rk_stream *stream, float *values, size_t n);
/* all [size * n_bytes]: mine of each rank. */
rk_status rk_device_comm_all_gather(rk_device_comm *dc, rk_stream *stream, const void *mine, size_t n_bytes,
                                    void *all);
/* Waits for all of the stream's work; RK_PEER_LOST after the communicator's time limit. */
rk_status rk_device_comm_wait(rk_device_comm *dc, rk_stream *stream);

#endif
