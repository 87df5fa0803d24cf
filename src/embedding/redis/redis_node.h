/* Connections to Redis servers, and what is under way on them: commands are queued at any of them, then sent
 * and answered on all at once. */
#ifndef RK_EMBEDDING_REDIS_REDIS_NODE_H
#define RK_EMBEDDING_REDIS_REDIS_NODE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/text/text.h"
#include "embedding/redis/redis_address_cache.h"

struct redisReader;
struct redisReply;

typedef struct rk_redis_node {
    char host[RK_REDIS_HOST_BYTES];
    int port;
    struct redisReader *reader;                         /* of what comes; NULL: there is no connection */
    int descriptor;                                     /* -1: none */
    rk_redis_address_cache *known;                      /* of all hosts; not its own */
    rk_redis_address addresses[RK_REDIS_MAX_ADDRESSES]; /* [n_addresses] of its host */
    size_t n_addresses, n_tried, first; /* first: which is tried first: the one that was last reached */
    bool connected;                     /* else the connection is under way */
    rk_buffer output;                   /* what is to be sent, of which n_sent bytes are */
    size_t n_sent;
    bool reused; /* it has answered before: that it is closed may mean only that it was idle for long */
    bool failed; /* in this exchange; what is queued from n_answered on has no answer */
    char reason[256];
    size_t *queue; /* [n_queued]: the commands under way, in their order */
    size_t n_queued, n_answered, capacity;
} rk_redis_node;

/* A command that belongs to the connection and not to the caller: its answer may only not be an error. */
#define RK_REDIS_OWN_COMMAND ((size_t)-1)

/* Adds a command to those under way; connects, and logs in by RK_REDIS_USER and RK_REDIS_PASSWORD, where
 * there is no connection. What fails is the node's: `failed` is set, and the command stands in the queue. An
 * error is that memory ran out; the node is closed then. */
rk_status rk_redis_node_queue_command(rk_redis_node *node, int n_words, const rk_span *words, size_t number);
void rk_redis_node_close(rk_redis_node *node); /* and forgets what is under way */
void rk_redis_node_release(rk_redis_node *node);

typedef struct rk_redis_wait {
    double until;              /* of rk_clock_seconds */
    const atomic_bool *cancel; /* may be NULL; looked at each 0.1 s */
} rk_redis_wait;

/* What is made of an answer; an error ends the exchange. */
typedef rk_status (*rk_redis_reply_handler)(void *context, rk_redis_node *node, size_t number,
                                            const struct redisReply *reply);
/* Until all that is queued is answered, or its node has failed (closed, refused, or no answer in time). An
 * error is that of `take`, or RK_INTERRUPTED, when `cancel` was set; connections with something under way are
 * closed then. */
rk_status rk_redis_nodes_exchange_commands(rk_redis_node **nodes, size_t n, const rk_redis_wait *wait,
                                           rk_redis_reply_handler take, void *context);

#endif
