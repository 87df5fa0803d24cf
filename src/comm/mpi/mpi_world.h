/* The kind `mpi`, for its files: start and end (comm_mpi.c), all_to_alls (mpi_all_to_all.c), liveness
 * (mpi_liveness.c). */
#ifndef RK_COMM_MPI_MPI_WORLD_H
#define RK_COMM_MPI_MPI_WORLD_H

#include <mpi.h>

#include "comm/comm.h"

/* A message that is there, until the all_to_all that it belongs to takes it. */
typedef struct rk_mpi_arrival {
    MPI_Message message;
    int source, tag, n_bytes;
} rk_mpi_arrival;

/* A request under way, and whose it is. */
typedef struct rk_mpi_pending_request {
    MPI_Request *request;
    rk_all_to_all *all_to_all;
    int32_t rank;
    bool sends;
} rk_mpi_pending_request;

/* What ranks said of whom they wait for (mpi_liveness.h). n: the ranks of the world. */
typedef struct rk_mpi_liveness {
    double *asked, *answered;        /* [n]: when */
    MPI_Request *asking, *answering; /* [n] */
    bool *answers, *replies;         /* [n, n]: from and to each rank, who is waited for */
    bool *well, *reached;            /* [n] */
    int32_t *suspects;               /* [n] */
} rk_mpi_liveness;

typedef struct rk_mpi_world {
    rk_comm_shared *shared;
    const rk_comm *all; /* the communicator of all ranks */
    rk_mpi_liveness liveness;
    MPI_Comm mpi;
    rk_all_to_all *first, **end; /* those under way, as begun */
    rk_mpi_arrival *arrivals;    /* [n_arrivals of max_arrivals], in the order in which they came */
    size_t n_arrivals, max_arrivals;
    rk_mpi_pending_request *pending_requests; /* [max_pending_requests], and for the call of MPI: */
    MPI_Request *requests;
    MPI_Status *statuses;
    int *indices;
    size_t max_pending_requests;
    bool started_mpi;
} rk_mpi_world;

typedef struct rk_comm_of_mpi {
    rk_comm head;
    rk_mpi_world *world;
    int32_t context; /* part of the tag: tells communicators of common ranks apart */
} rk_comm_of_mpi;

/* A tag: the channel, the sequence number within RK_MAX_UNDER_WAY, the context. */
enum {
    RK_TAG_CHANNEL_BITS = 4,
    RK_TAG_SEQUENCE_BITS = 8,
    RK_TAG_CONTEXT_SHIFT = RK_TAG_CHANNEL_BITS + RK_TAG_SEQUENCE_BITS
};
_Static_assert(RK_ALL_CHANNELS <= 1 << RK_TAG_CHANNEL_BITS && RK_MAX_UNDER_WAY == 1 << RK_TAG_SEQUENCE_BITS,
               "a tag's fields");

/* What an all_to_all knows of its way to and from a rank. A message is sent as pieces of piece_bytes and one
 * shorter than that, which may be empty. */
typedef struct rk_mpi_part {
    MPI_Request sending, receiving; /* a piece; MPI_REQUEST_NULL: none */
    const char *data;               /* not yet given to MPI */
    size_t n_left;
    bool receives;                  /* a piece is under way, or has just come */
    bool sends_last, receives_last; /* the piece under way is the last */
} rk_mpi_part;

/* MPI's own words, after the formatted ones. */
rk_status rk_mpi_error(rk_status status, int code, const char *format, ...) RK_PRINTF(3, 4);

rk_status rk_mpi_all_to_all_begin(rk_all_to_all *all_to_all, const rk_message *send, const bool *to,
                                  const bool *from);
rk_status rk_mpi_all_to_all_test(rk_all_to_all *all_to_all, bool *done);
void rk_mpi_all_to_all_abandon(rk_all_to_all *all_to_all);

#endif
