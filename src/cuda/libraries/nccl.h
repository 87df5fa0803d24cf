/* NCCL: exchanges between the GPU memories of ranks. It is loaded when it is first used (libnccl.so.2). In a
 * build without its header, nccl_stub.c returns an error.
 *
 * Work is given to a stream, in the same order by every rank, and done later. The first failure is kept as
 * the device's. Thread rule: as the device's. */
#ifndef RK_CUDA_LIBRARIES_NCCL_H
#define RK_CUDA_LIBRARIES_NCCL_H

#include "cuda/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RK_NCCL_ID_BYTES = 128 };

typedef struct rk_nccl rk_nccl;

/* Some memory of a device, to or from a rank. */
typedef struct rk_device_message {
    int32_t rank;
    void *data;
    size_t n_bytes;
} rk_device_message;

rk_status rk_nccl_load(void); /* RK_UNSUPPORTED: there is none, and why */
/* What ranks join by: made by one, known to all. */
rk_status rk_nccl_new_id(char id[RK_NCCL_ID_BYTES]);
/* All ranks call it, each with a GPU of its own, and wait for each other. */
rk_status rk_nccl_create(rk_device *device, const char id[RK_NCCL_ID_BYTES], int32_t rank, int32_t size,
                         rk_nccl **out);
void rk_nccl_free(rk_nccl *nccl); /* all of its work is done, or rk_nccl_wait has failed; NULL is fine */

/* Messages to and from other ranks. Between two ranks they match in the order of the lists, and have equal
 * sizes. */
void rk_nccl_all_to_all(rk_nccl *nccl, rk_stream *stream, const rk_device_message *send, size_t n_send,
                        const rk_device_message *receive, size_t n_receive);
void rk_nccl_all_reduce(rk_nccl *nccl, rk_stream *stream, float *values,
                        size_t n); /* over ranks; the same bits on each */
void rk_nccl_all_gather(rk_nccl *nccl, rk_stream *stream, const void *mine, size_t n_bytes,
                        void *all); /* all [size * n_bytes] */
/* Waits for all work of the stream; RK_PEER_LOST after timeout_s. After any failure NCCL is of no more
 * use. */
rk_status rk_nccl_wait(rk_nccl *nccl, rk_stream *stream, double timeout_s);

#ifdef __cplusplus
}
#endif
#endif
