/* A Redis server, or a cluster of them, by its keys: many commands at once, in one round trip a node. One
 * thread at a time. */
#ifndef RK_EMBEDDING_REDIS_REDIS_CLIENT_H
#define RK_EMBEDDING_REDIS_REDIS_CLIENT_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/buffer.h"
#include "embedding/redis/redis_address_cache.h"

/* "redis://HOST[:PORT]/PREFIX": keys begin with the prefix and a colon. */
typedef struct rk_redis_url {
    char *host, *prefix;
    int port;
} rk_redis_url;
/* Errors: RK_CONFIG. */
rk_status rk_redis_url_parse(const char *text, rk_redis_url *out);
void rk_redis_url_release(rk_redis_url *url);

typedef struct rk_redis_command {
    enum { RK_REDIS_GET, RK_REDIS_GET_RANGE, RK_REDIS_SET } verb;
    const char *key;        /* and, */
    int64_t number;         /* behind it, unless it is negative */
    int64_t first, n_bytes; /* GET_RANGE: which bytes of the value; SET: how many */
    const void *data;       /* SET */
    void *out;              /* GET_RANGE: [n_bytes] */
    rk_buffer *text;        /* GET: appended; a key that is not there appends nothing */
} rk_redis_command;

typedef struct rk_redis_limits {
    double timeout;            /* seconds */
    const atomic_bool *cancel; /* NULL, or: within 0.1 s of when another thread has set it, RK_INTERRUPTED */
} rk_redis_limits;

typedef struct rk_redis rk_redis;
/* Connects when it is first used. known: addresses of hosts, which outlive it. RK_UNSUPPORTED: a build
 * without hiredis. */
rk_status rk_redis_create(const rk_redis_url *url, rk_redis_address_cache *known, rk_redis **out);
void rk_redis_free(rk_redis *redis);
/* All of them, within the limits, in any order: they may be sent twice where a node was lost, or slots
 * have moved. Errors: RK_UNAVAILABLE, where a node cannot be reached, does not answer in time or refuses, or
 * a range is shorter than n_bytes. */
rk_status rk_redis_run_commands(rk_redis *redis, const rk_redis_command *commands, size_t n,
                                const rk_redis_limits *limits);
/* Whether all nodes that have keys answer. */
rk_status rk_redis_ping(rk_redis *redis, const rk_redis_limits *limits);

#endif
