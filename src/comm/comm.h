/* Behind <reckon/comm.h>: all_to_alls, and what is built from them. A kind of communication is a table of
 * functions. A new kind is a folder with a table and a constructor. If its library may be missing,
 * comm_<kind>_stub.c has the same constructor, which returns an error.
 *
 * All_to_alls of the ranks match by a sequence number on their channel. It is taken when one begins, so that
 * an all_reduce may take two when it begins and use the second later. */
#ifndef RK_COMM_COMM_H
#define RK_COMM_COMM_H

#include <pthread.h>
#include <stdatomic.h>

#include <reckon/comm.h>

#include "comm/message_pool.h"

/* What all_to_alls are for: those of one channel meet in the order in which they are begun; channels do not
 * wait for one another. */
typedef enum rk_channel {
    RK_CHANNEL_SUMS,
    RK_CHANNEL_DENSE,
    RK_CHANNEL_IDS,
    RK_CHANNEL_ROWS,
    RK_CHANNEL_GRADIENTS,
    RK_CHANNEL_STEP_STATUS,
    RK_CHANNEL_VALUES,
    RK_CHANNEL_BATCHES,
    RK_CHANNEL_COUNT
} rk_channel;

typedef struct rk_message {
    void *data;
    size_t n_bytes;
} rk_message;

/* A message to each rank and one from each, under way. The sizes of what is received need not be known
 * before. */
typedef struct rk_all_to_all rk_all_to_all;

/* send [size]: data stays as it is until the all_to_all is done. to, from [size]: which ranks take part as
 * receivers and as senders, agreed upon by both sides; NULL: all. A message of 0 bytes is a message too. */
rk_status rk_all_to_all_begin(rk_comm *comm, rk_channel channel, const rk_message *send, const bool *to,
                              const bool *from, rk_all_to_all **out);
/* Drives all all_to_alls on; whether this one is done. */
rk_status rk_all_to_all_test(rk_all_to_all *all_to_all, bool *done);
/* Sleeps little and often; RK_PEER_LOST names the ranks that are lost, as far as it could find out
 * (docs/failures.md), once its time limit and the time to ask are over. */
rk_status rk_all_to_all_wait(rk_all_to_all *all_to_all);
/* [size], once done; 64-byte aligned, the all_to_all's own until it is freed. Empty from ranks that do not
 * send. */
const rk_message *rk_all_to_all_received_messages(const rk_all_to_all *all_to_all);
/* What that rank sent, where both sides know its size; RK_INTERNAL names the rank that sent another. `out` is
 * a pointer to the pointer, of any kind. */
rk_status rk_all_to_all_get_message(const rk_all_to_all *all_to_all, int32_t rank, size_t n_bytes, void *out);
/* The same, copied to where it belongs. */
rk_status rk_all_to_all_copy_message(const rk_all_to_all *all_to_all, int32_t rank, size_t n_bytes, void *to);
/* The same of n_bytes or more; *left: those after them. */
rk_status rk_all_to_all_split_message(const rk_all_to_all *all_to_all, int32_t rank, size_t n_bytes,
                                      void *out, size_t *left);
/* Its buffers serve later all_to_alls. Only when done, or after an error. NULL is fine. */
void rk_all_to_all_free(rk_all_to_all *all_to_all);
static inline void rk_all_to_all_auto_free(rk_all_to_all **all_to_all) { /* for RK_AUTO */
    rk_all_to_all_free(*all_to_all);
}

/* A sum over ranks under way: parts of the values go to their rank, are added there in the order of the tree,
 * and go back to all. Any wait on the communicator moves it on, and so does an progress thread
 * (progress_thread.h). */
typedef struct rk_all_reduce rk_all_reduce;
rk_status rk_all_reduce_begin(rk_comm *comm, rk_channel channel, float *values, size_t n,
                              rk_all_reduce **out); /* values stay until it is done */
/* What parts and sums travel as: bf16, rounded to the nearest, finite ones to finite ones; or int8 with error
 * feedback (int8_pieces.h). They are added in f32, and the sums have the same bits on each rank. */
typedef enum rk_sum_wire { RK_SUM_F32, RK_SUM_BF16, RK_SUM_INT8 } rk_sum_wire;
/* For int8, residual [n]: what the last sum of these values kept back on this rank, zeros before the first;
 * next [n]: what this one keeps back. Of the others' parts that is what this rank's values lose, of its own
 * part what the sums lose: so the ranks' sums and their residuals are together all that they have added. A
 * value that is not finite is a NaN in the sum, and the next residual of no use. Up to 1,024 values travel as
 * f32, with the whole residual. */
typedef struct rk_sum_rounding {
    rk_sum_wire wire;
    const float *residual;
    float *next;
} rk_sum_rounding;
size_t rk_sum_wire_bytes(rk_sum_wire wire, size_t n); /* that n values take in a message */
rk_status rk_all_reduce_begin_rounded(rk_comm *comm, rk_channel channel, const rk_sum_rounding *rounding,
                                      float *values, size_t n, rk_all_reduce **out);
rk_status rk_all_reduce_wait(rk_all_reduce *sum);
void rk_all_reduce_free(rk_all_reduce *sum);

static inline void rk_comm_auto_free(rk_comm **comm) { /* for RK_AUTO */
    rk_comm_free(*comm);
}

/* What this rank has sent to others so far, for whatever purpose. */
uint64_t rk_comm_bytes_sent(const rk_comm *comm);
/* The same bytes from each rank to each: received [size] messages of the all_to_all; wait included.
 * rk_all_to_all_free it. */
rk_status rk_comm_all_gather(rk_comm *comm, rk_channel channel, const void *data, size_t n_bytes,
                             rk_all_to_all **out);
/* The first failure, in the order of ranks, as every rank's own: RK_OK only if all ranks pass RK_OK. Its
 * message names the rank. */
rk_status rk_comm_agree_on_status(rk_comm *comm, rk_status status);
/* Whether all ranks pass the same bytes, as many of them. */
rk_status rk_comm_all_equal(rk_comm *comm, const void *data, size_t n_bytes, bool *same);
/* The first rank's text (NULL: none) in place of all others': *text is the caller's, rk_free. */
rk_status rk_comm_broadcast_text(rk_comm *comm, char **text);
/* Ranks of `members` [n_members], ascending, this rank among them, as a communicator of their own; all of
 * those call it, each from one thread at a time. It is freed before the one it was made of, by this rank
 * alone. */
rk_status rk_comm_create_group(rk_comm *comm, const int32_t *members, int32_t n_members, rk_comm **out);

/* The same of the first n ranks, this one among them. */
rk_status rk_comm_create_group_of_first_ranks(rk_comm *comm, int32_t n, rk_comm **out);

/* Who a rank of a communicator is in the world, for messages. */
typedef struct rk_peer {
    int32_t rank;
    char host[60];
} rk_peer;

/* What a communicator and those made of its members have in common. */
typedef struct rk_comm_shared {
    pthread_mutex_t mutex; /* held for all below, for the state of all_to_alls, and for every call of MPI */
    rk_message_pool pool;
    size_t piece_bytes;   /* larger messages are cut into pieces of this size; the same on every rank */
    int32_t next_context; /* of communicators of its members: the least one that was never used; all's is 0 */
    _Atomic uint64_t bytes_sent; /* to other ranks */
    const rk_comm *all;          /* the communicator of all ranks, for their names */
    rk_status failed;            /* not RK_OK: of no more use, because of `failure` */
    char failure[2048];
} rk_comm_shared;

/* The library's own channels, after those of rk_channel. */
enum { RK_CHANNEL_MEMBERS = RK_CHANNEL_COUNT, RK_CHANNEL_FAREWELL, RK_CHANNEL_LIVENESS, RK_ALL_CHANNELS };
/* So many all_to_alls of one channel may be under way on a rank. */
enum { RK_MAX_UNDER_WAY = 256 };

typedef struct rk_comm_ops {
    size_t part_bytes; /* of what it keeps for each rank in an all_to_all */
    void (*free)(rk_comm *comm);
    rk_status (*begin)(rk_all_to_all *all_to_all, const rk_message *send, const bool *to, const bool *from);
    rk_status (*test)(rk_all_to_all *all_to_all,
                      bool *done);              /* moves on all that share its communicator's state */
    void (*abandon)(rk_all_to_all *all_to_all); /* it will be freed, and was not done */
    rk_status (*members)(rk_comm *comm, const int32_t *members, int32_t n_members, rk_comm **out);
    void (*abort)(rk_comm *comm, const char *reason);
    /* Of an all_to_all that is late, again and again until it is known: well [ranks of the world], its kind's
     * own; false: one that is not heard of, or waits for nobody; or, where all wait, that is waited for here.
     * NULL: not known yet. The mutex is held. */
    rk_status (*find_lost)(rk_all_to_all *all_to_all, const bool **well);
    bool is_alone; /* one process: nobody waits in vain where memory ran out, and the next call may do */
} rk_comm_ops;

/* The head of every kind's own struct. */
struct rk_comm {
    const rk_comm_ops *ops;
    rk_comm_shared *shared;
    int32_t rank, size;
    double timeout_s;
    rk_peer *peers;                          /* [size] */
    _Atomic uint32_t begun[RK_ALL_CHANNELS]; /* sequence numbers taken */
    rk_all_to_all *idle;                     /* to be used again */
    rk_all_reduce *sums;                     /* under way, in the order in which they were begun */
    rk_all_reduce *idle_sums;
    pthread_mutex_t sums_mutex;   /* held by who moves them on */
    pthread_cond_t sums_begun;    /* wakes the progress thread */
    pthread_cond_t sums_ended;    /* wakes who waits for one */
    bool has_progress_thread;     /* that moves them on; under sums_mutex */
    _Atomic uint64_t n_sum_moves; /* all_to_alls of theirs that have ended */
    char description[128];
};

struct rk_all_to_all {
    rk_comm *comm;
    int channel;
    uint32_t sequence;    /* the same on every rank: messages match by communicator, channel and sequence */
    rk_message *received; /* [size]: data of the pool */
    bool *arrived;        /* [size]: received from there, or nothing is sent there */
    bool *taken;          /* [size]: sent there, or nothing is to be sent */
    void *parts;          /* [size * part_bytes]: the kind's own */
    bool done;
    atomic_bool awaited;           /* a thread does nothing but wait for it */
    double late_since, asked_last; /* 0: it is not late, and no rank was asked who is lost */
    rk_all_to_all *next;           /* in the list of those under way, or idle */
};

/* For kinds, whose struct of so many bytes begins with an rk_comm: zeros but for the head's fields; peers
 * without hosts. out: a pointer to a pointer to the kind's struct. */
rk_status rk_comm_create(size_t bytes, const rk_comm_ops *ops, rk_comm_shared *shared, int32_t rank,
                         int32_t size, double timeout_s, void *out);
void rk_comm_release(rk_comm *comm);
/* Of a new communicator of members of another: who they are, and its description. */
void rk_comm_set_group_description(rk_comm *made, const rk_comm *of, const int32_t *members);
rk_status rk_comm_shared_create(rk_comm_shared **out);
void rk_comm_shared_free(rk_comm_shared *shared);

/* Keep this thread's last error as the end of the communicator; returns `status`. */
rk_status rk_comm_record_failure(rk_comm *comm, rk_status status);
rk_status rk_comm_check_failure(rk_comm *comm); /* RK_OK, or that error as this thread's */

/* An all_to_all of a sequence number that its caller keeps. */
rk_status rk_all_to_all_begin_with_sequence(rk_comm *comm, int channel, uint32_t sequence,
                                            const rk_message *send, const bool *to, const bool *from,
                                            rk_all_to_all **out);
void rk_all_to_all_release(rk_all_to_all *all_to_all); /* its memory, once idle */
/* Over its time limit, again and again: RK_OK while others are asked whom they wait for; RK_PEER_LOST names
 * who is lost, and is the end of the communicator. */
rk_status rk_all_to_all_check_timeout(rk_all_to_all *all_to_all);
/* For kinds: what a rank sends itself is received at the begin. */
rk_status rk_all_to_all_deliver_to_self(rk_all_to_all *all_to_all, const rk_message *send);
const char *rk_channel_name(int channel);
/* Names of the hosts of all ranks, for messages. */
rk_status rk_comm_gather_hosts(rk_comm *comm);
/* The members agree upon the least context that none of them has used. */
rk_status rk_comm_agree_on_context(rk_comm *comm, const int32_t *members, int32_t n_members, int32_t *out);
/* Before the end: until all ranks have come here. */
rk_status rk_comm_final_barrier(rk_comm *comm);
/* A timeout_s of the caller's, or the default. */
rk_status rk_comm_resolve_timeout(const rk_comm_options *options, double *out);
/* Between two looks: spins at first, then sleeps. */
void rk_comm_spin_or_sleep(unsigned *n_pauses);
/* By the last look at messages. */
bool rk_all_to_all_is_done(rk_all_to_all *all_to_all);
/* Move all sums of a communicator on, by the last look at messages or by one more: all need but one, and a
 * look takes system calls. */
rk_status rk_all_reduces_advance(rk_comm *comm, bool looks);
void rk_all_reduces_release(rk_comm *comm);

/* The kind `mpi`, or that this build has none. */
rk_status rk_comm_mpi(double timeout_s, rk_comm **out);

#endif
