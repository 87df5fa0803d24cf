/* How ranks talk. `self` is one process; nothing above this knows which kind it has. */
#ifndef RECKON_COMM_H
#define RECKON_COMM_H

#include <stddef.h>
#include <stdint.h>

#include <reckon/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rk_comm rk_comm;

RK_API rk_status rk_comm_self(rk_comm **out); /* one process */
RK_API void rk_comm_free(rk_comm *comm);
RK_API int32_t rk_comm_rank(const rk_comm *comm);
RK_API int32_t rk_comm_size(const rk_comm *comm);

/* Collective calls: every rank makes them in the same order. */
RK_API rk_status rk_comm_barrier(rk_comm *comm);
/* values [n]: the sum over the ranks, in rank order, the same bits on each. */
RK_API rk_status rk_comm_all_reduce_f32(rk_comm *comm, float *values, size_t n);
/* send_bytes[r] bytes at send + send_offsets[r] go to rank r; likewise received. All arrays [size]. */
RK_API rk_status rk_comm_all_to_all(rk_comm *comm, const void *send, const size_t *send_bytes, const size_t *send_offsets, void *receive,
                                    const size_t *receive_bytes, const size_t *receive_offsets);
/* End the job on every rank with an error that names this rank. Does not return for kinds with other ranks. */
RK_API void rk_comm_abort(rk_comm *comm, const char *reason);

#ifdef __cplusplus
}
#endif
#endif
