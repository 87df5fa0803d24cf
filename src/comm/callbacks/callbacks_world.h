/* The communicator over the caller's callbacks, behind its files: starting and ending (comm_callbacks.c),
 * messages in rounds (callbacks_all_to_all.c). */
#ifndef RK_COMM_CALLBACKS_CALLBACKS_WORLD_H
#define RK_COMM_CALLBACKS_CALLBACKS_WORLD_H

#include "comm/comm.h"

/* What each rank tells each in a round, before the messages: how many bytes they have together. */
typedef struct rk_round_head {
    uint64_t magic;
    int32_t rank, size;
    uint64_t n_bytes;    /* of messages to this rank, with their heads */
    uint64_t n_messages; /* to all ranks */
} rk_round_head;

/* Before a message: which all_to_all it belongs to. Data follows, padded to 8 bytes. */
typedef struct rk_round_message {
    int32_t context, channel;
    uint32_t sequence, zero;
    uint64_t n_bytes;
} rk_round_message;

/* A message that came before its all_to_all was begun here. */
typedef struct rk_early_message {
    rk_round_message head;
    int32_t source;
    void *data; /* of the pool */
    struct rk_early_message *next;
} rk_early_message;

typedef struct rk_callbacks_world {
    rk_comm_shared *shared;
    rk_comm_functions functions;
    pthread_mutex_t round_mutex; /* held by the thread that calls them, and for all until `first` */
    rk_round_head *told, *heard; /* [size] */
    size_t *head_bytes;          /* [size] */
    size_t *send_bytes;          /* [size] */
    size_t *receive_bytes;       /* [size] */
    char *send, *receive;
    size_t send_capacity, receive_capacity;
    double idle_s;               /* of rounds without a message since the last one with any */
    rk_all_to_all *first, **end; /* those under way, as begun; shared->mutex is held */
    rk_early_message *early, **early_end;
    bool *left; /* [size]: freed its communicator */
} rk_callbacks_world;

typedef struct rk_comm_of_callbacks {
    rk_comm head;
    rk_callbacks_world *world;
    int32_t context; /* tells communicators of common ranks apart */
} rk_comm_of_callbacks;

rk_status rk_callbacks_all_to_all_begin(rk_all_to_all *all_to_all, const rk_message *send, const bool *to,
                                        const bool *from);
rk_status rk_callbacks_all_to_all_test(rk_all_to_all *all_to_all, bool *done);
void rk_callbacks_all_to_all_abandon(rk_all_to_all *all_to_all);

#endif
