/* The addresses of Redis servers' hosts, kept: to ask for them may take long, which is not for those who
 * have requests waiting. Any number of threads at once. */
#ifndef RK_EMBEDDING_REDIS_REDIS_ADDRESSES_H
#define RK_EMBEDDING_REDIS_REDIS_ADDRESSES_H

#include <stddef.h>
#include <sys/socket.h>

#include "base/error.h"

enum { RK_REDIS_MAX_ADDRESSES = 8, RK_REDIS_HOST_BYTES = 256 };

typedef struct rk_redis_address {
    struct sockaddr_storage bytes;
    socklen_t n_bytes;
} rk_redis_address;

typedef struct rk_redis_addresses rk_redis_addresses;

rk_status rk_redis_addresses_create(rk_redis_addresses **out);
void rk_redis_addresses_free(rk_redis_addresses *addresses);
/* A host's, the system's first choice first; asks only for those of a host that is new. RK_UNAVAILABLE: why
 * there are none. */
rk_status rk_redis_addresses_get(rk_redis_addresses *addresses, const char *host, int port,
                                 rk_redis_address out[RK_REDIS_MAX_ADDRESSES], size_t *n);
/* Asks for all anew, one after another; who has none now keeps what there was. One thread at a time. */
void rk_redis_addresses_refresh(rk_redis_addresses *addresses);

#endif
