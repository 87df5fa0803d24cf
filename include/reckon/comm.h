/* How ranks talk: one message to every rank and one from every rank, by any number of such exchanges at a
 * time; sums on top of it. One process, many over MPI, or ranks that talk by functions of the caller's;
 * nothing above this knows which it has.
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

/* Functions of the caller's, by which ranks talk: those of torch.distributed, of a runtime with ranks of its
 * own, or of threads. One is enough; the library makes everything else of it. */
typedef struct rk_comm_functions {
    size_t struct_size;
    int32_t rank, size; /* this rank, 0 to size - 1, and how many there are */
    void *user;         /* given to each call; outlives the communicator */
    /* A message of bytes to every rank and one from every rank, this rank's to itself among them. send: the
     * messages one after another in the order of ranks, of send_bytes[r] bytes each; receive: room for those
     * that come, likewise of receive_bytes[r]. [size]; any of them may be 0, and send and receive may be NULL
     * where all are. It returns when receive is filled and send may be written to again: 0, or any other
     * number if that failed or a rank is lost, which ends the communicator. A limit to how long it waits for
     * other ranks is its own.
     *
     * Every rank makes the same calls in the same order, one at a time, but from whatever threads of the
     * library or the caller's that wait. It is not to call the library. (In PyTorch:
     * dist.all_to_all_single(receive, send, receive_bytes, send_bytes, group=...), in a group that nothing
     * else uses.) */
    int (*all_to_all)(void *user, const void *send, const size_t *send_bytes, void *receive,
                      const size_t *receive_bytes);
    /* rk_comm_abort: end the job on every rank. NULL: rk_comm_abort logs the reason and returns. */
    void (*abort)(void *user, const char *reason);
} rk_comm_functions;
#define RK_COMM_FUNCTIONS_INIT \
    { sizeof(rk_comm_functions), 0, 0, 0, 0, 0 }

/* A communicator of them; every rank calls it, and it waits for the others. A rank's messages go out when it
 * waits for something, and that waits for every rank to do so: ranks that work while others wait are waited
 * for. options may be NULL; timeout_s: how long all ranks may wait for each other with nothing on its way,
 * before one that does not send is taken for lost. Errors: RK_INVALID_ARGUMENT (the struct), RK_BAD_DATA
 * (all_to_all did not give back what the ranks sent), RK_PEER_LOST (it failed), RK_NO_MEMORY. After an error
 * of a call, other ranks are told by their all_to_all alone: it is to fail there too when this one ends. */
RK_API rk_status rk_comm_from_functions(const rk_comm_functions *functions, const rk_comm_options *options,
                                        rk_comm **out);
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
/* End the job on every rank with an error that names this rank. Over MPI it does not return. */
RK_API void rk_comm_abort(rk_comm *comm, const char *reason);

#ifdef __cplusplus
}
#endif
#endif
