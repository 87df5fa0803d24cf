/* Behind <reckon/comm.h>: exchanges, and what is built of them. A kind of communication is a table of functions. A new kind is comm_<kind>.c with a table
 * and a constructor; where its library may be missing, comm_<kind>_stub.c has the same constructor, which says so. */
#ifndef RK_COMM_COMM_H
#define RK_COMM_COMM_H

#include <reckon/comm.h>

/* What exchanges are for: those of one lane meet in the order in which they are begun; lanes do not wait for one another. */
typedef enum rk_lane { RK_LANE_SUMS, RK_LANE_DENSE, RK_LANE_IDS, RK_LANE_ROWS, RK_LANE_GRADIENTS, RK_LANE_VALUES, RK_LANE_COUNT } rk_lane;

typedef struct rk_parcel {
    void *data;
    size_t n_bytes;
} rk_parcel;

/* A message to each rank and one from each, under way. The sizes of what is received need not be known before. */
typedef struct rk_exchange rk_exchange;

/* send [size]: data stays as it is until the exchange is done. to, from [size]: which ranks take part as receivers and as senders, agreed upon by both
 * sides; NULL: all. A parcel of 0 bytes is a message too. */
rk_status rk_exchange_begin(rk_comm *comm, rk_lane lane, const rk_parcel *send, const bool *to, const bool *from, rk_exchange **out);
/* Move everything on (of all exchanges); is this one done? */
rk_status rk_exchange_test(rk_exchange *exchange, bool *done);
/* Sleeps little and often; RK_PEER_LOST names the ranks that it still waited for at the time limit. */
rk_status rk_exchange_wait(rk_exchange *exchange);
/* [size], once done; 64-byte aligned, the exchange's own until it is freed. Empty from ranks that do not send. */
const rk_parcel *rk_exchange_received(const rk_exchange *exchange);
/* Its buffers serve later exchanges. Only when done, or after an error. NULL is fine. */
void rk_exchange_free(rk_exchange *exchange);

/* A sum over ranks under way: parts of the values go to their rank, are added there in the order of the tree, and go back to all. */
typedef struct rk_sum rk_sum;
rk_status rk_sum_begin(rk_comm *comm, rk_lane lane, float *values, size_t n, rk_sum **out); /* values stay until it is done */
rk_status rk_sum_test(rk_sum *sum, bool *done);
rk_status rk_sum_wait(rk_sum *sum);
void rk_sum_free(rk_sum *sum);

/* The same bytes from each rank to each: received [size] parcels of the exchange; wait included. rk_exchange_free it. */
rk_status rk_comm_gather(rk_comm *comm, rk_lane lane, const void *data, size_t n_bytes, rk_exchange **out);
/* The first failure, in the order of ranks, as every rank's own: RK_OK only if all ranks pass RK_OK. Its message names the rank. */
rk_status rk_comm_agree(rk_comm *comm, rk_status status);
/* Ranks of `members` [n_members], ascending, this rank among them, as a communicator of their own; all of those call it. */
rk_status rk_comm_members(rk_comm *comm, const int32_t *members, int32_t n_members, rk_comm **out);

typedef struct rk_comm_functions {
    void (*free)(rk_comm *comm);
    rk_status (*begin)(rk_comm *comm, rk_lane lane, const rk_parcel *send, const bool *to, const bool *from, rk_exchange **out);
    rk_status (*test)(rk_exchange *exchange, bool *done);
    void (*release)(rk_exchange *exchange);
    rk_status (*members)(rk_comm *comm, const int32_t *members, int32_t n_members, rk_comm **out);
    void (*abort)(rk_comm *comm, const char *reason);
} rk_comm_functions;

/* The head of every kind's own struct. */
struct rk_comm {
    const rk_comm_functions *functions;
    int32_t rank, size;
    double timeout_s;
    char description[128];
};

/* The head of every kind's exchange. */
struct rk_exchange {
    rk_comm *comm;
    rk_lane lane;
    rk_parcel *received; /* [size] */
    bool *arrived;       /* [size]: received from there, or nothing is sent there; for messages */
    double deadline;     /* seconds, by rk_clock_seconds */
    bool done;
};

#endif
