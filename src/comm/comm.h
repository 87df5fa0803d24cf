/* Behind <reckon/comm.h>: a kind of communication is a table of functions. A new kind is comm_<kind>.c with a table and a
 * constructor; where its library may be missing, comm_<kind>_stub.c has the same constructor, which says so. */
#ifndef RK_COMM_COMM_H
#define RK_COMM_COMM_H

#include <reckon/comm.h>

typedef struct rk_comm_functions {
    void (*free)(rk_comm *comm);
    rk_status (*barrier)(rk_comm *comm);
    rk_status (*all_reduce_f32)(rk_comm *comm, float *values, size_t n);
    rk_status (*all_to_all)(rk_comm *comm, const void *send, const size_t *send_bytes, const size_t *send_offsets, void *receive,
                            const size_t *receive_bytes, const size_t *receive_offsets);
    void (*abort)(rk_comm *comm, const char *reason);
} rk_comm_functions;

/* The head of every kind's own struct. */
struct rk_comm {
    const rk_comm_functions *functions;
    int32_t rank, size;
};

#endif
