/* How ranks talk: one message to every rank and one from every rank, by any number of such exchanges at a
 * time; sums on top of it. `self` is one process, `mpi` is many; nothing above this knows which it has.
 *
 * Thread rule: any thread may call; calls that begin exchanges of one lane are made in the same order on
 * every rank. Errors: RK_PEER_LOST names the ranks that a wait beyond the time limit found lost
 * (docs/failures.md), or that the system says are gone; the communicator is then of no more use, and the
 * process should end.
 * Stable (docs/api.md). */
#ifndef RECKON_COMM_H
#define RECKON_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <reckon/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rk_comm rk_comm;

typedef struct rk_comm_options {
    size_t struct_size;
    double timeout_s; /* how long a wait lasts before it asks who is lost; 0: 300 */
} rk_comm_options;
#define RK_COMM_OPTIONS_INIT \
    { sizeof(rk_comm_options), 0 }

RK_API rk_status rk_comm_self(rk_comm **out); /* one process */
/* All ranks that a launcher (mpirun, srun) started; one process, where none did. RK_UNSUPPORTED if there is a
 * launcher and the library was built without MPI. Once a process: a launcher's ranks cannot be started twice.
 * options may be NULL. Under a launcher SIGPIPE is ignored from here on, unless the program has a handler for
 * it: a rank outlives the connections to ranks that are lost. Sets OMPI_MCA_btl_tcp_flags, unless it is set,
 * before it starts MPI. */
RK_API rk_status rk_comm_world(const rk_comm_options *options, rk_comm **out);
/* For kinds with other ranks, every rank calls it, and it waits for them, unless the communicator failed. */
RK_API void rk_comm_free(rk_comm *comm);
RK_API int32_t rk_comm_rank(const rk_comm *comm);
RK_API int32_t rk_comm_size(const rk_comm *comm);
/* "mpi: Open MPI 4.1.4, rank 2 of 4 on host b"; lives as long as the communicator. */
RK_API const char *rk_comm_describe(const rk_comm *comm);

/* Collective calls: every rank makes them in the same order. */
RK_API rk_status rk_comm_barrier(rk_comm *comm);
/* values [n]: the sum over the ranks, the same bits on each. Added in the order of a binary tree over ranks,
 * ((0 + 1) + (2 + 3)) + (4 + 5), so that a tree of partial sums made on fewer ranks gives the same bits. */
RK_API rk_status rk_comm_all_reduce_f32(rk_comm *comm, float *values, size_t n);
/* End the job on every rank with an error that names this rank. Does not return for kinds with other
 * ranks. */
RK_API void rk_comm_abort(rk_comm *comm, const char *reason);

#ifdef __cplusplus
}
#endif
#endif
