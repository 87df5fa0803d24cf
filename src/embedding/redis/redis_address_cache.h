/* The addresses of Redis servers' hosts, kept: to ask for them may take long, which is not for those who
 * have requests waiting. Any number of threads at once. */
#ifndef RK_EMBEDDING_REDIS_REDIS_ADDRESS_CACHE_H
#define RK_EMBEDDING_REDIS_REDIS_ADDRESS_CACHE_H

#include <stddef.h>
#include <sys/socket.h>

#include "base/error.h"

enum { RK_REDIS_MAX_ADDRESSES = 8, RK_REDIS_HOST_BYTES = 256 };

typedef struct rk_redis_address {
    struct sockaddr_storage bytes;
    socklen_t n_bytes;
} rk_redis_address;

typedef struct rk_redis_address_cache rk_redis_address_cache;

rk_status rk_redis_address_cache_create(rk_redis_address_cache **out);
void rk_redis_address_cache_free(rk_redis_address_cache *addresses);
/* A host's, the system's first choice first; asks only for those of a host that is new. RK_UNAVAILABLE: why
 * there are none. */
rk_status rk_redis_address_cache_get(rk_redis_address_cache *addresses, const char *host, int port,
                                     rk_redis_address out[RK_REDIS_MAX_ADDRESSES], size_t *n);
/* Asks for all anew, one after another; who has none now keeps what there was. One thread at a time. */
void rk_redis_address_cache_refresh(rk_redis_address_cache *addresses);

#endif
