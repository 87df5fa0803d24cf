#include "embedding/redis/redis_address_cache.h"

#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

typedef struct host_addresses {
    char host[RK_REDIS_HOST_BYTES];
    int port;
    rk_redis_address list[RK_REDIS_MAX_ADDRESSES]; /* [n] */
    size_t n;
} host_addresses;

struct rk_redis_address_cache {
    pthread_mutex_t mutex;
    host_addresses *hosts; /* [n_hosts] */
    size_t n_hosts, capacity;
};

rk_status rk_redis_address_cache_create(rk_redis_address_cache **out) {
    rk_redis_address_cache *a;
    RK_TRY(rk_alloc(1, sizeof *a, &a));
    pthread_mutex_init(&a->mutex, NULL);
    *out = a;
    return RK_OK;
}

void rk_redis_address_cache_free(rk_redis_address_cache *a) {
    if (!a) return;
    pthread_mutex_destroy(&a->mutex);
    RK_FREE_ALL(a->hosts, a);
}

/* May block for as long as the system's resolver does. */
static rk_status resolve_host_addresses(host_addresses *h) {
    char port[16];
    struct addrinfo *found, wanted = {.ai_flags = AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    snprintf(port, sizeof port, "%d", h->port);
    int code = getaddrinfo(h->host, port, &wanted, &found);
    RK_FAIL_IF(code != 0, RK_UNAVAILABLE, "%s", gai_strerror(code));
    h->n = 0;
    for (const struct addrinfo *f = found; f && h->n < RK_REDIS_MAX_ADDRESSES; f = f->ai_next) {
        rk_redis_address *to = &h->list[h->n++];
        to->n_bytes = f->ai_addrlen;
        memcpy(&to->bytes, f->ai_addr, f->ai_addrlen);
    }
    freeaddrinfo(found);
    return RK_OK;
}

static host_addresses *find_known_host(rk_redis_address_cache *a, const char *host, int port) {
    for (size_t i = 0; i < a->n_hosts; i++)
        if (a->hosts[i].port == port && strcmp(a->hosts[i].host, host) == 0) return &a->hosts[i];
    return NULL;
}

static rk_status store_addresses(rk_redis_address_cache *a, const host_addresses *h) {
    host_addresses *known = find_known_host(a, h->host, h->port);
    if (!known) {
        RK_TRY(rk_reserve_one_more(&a->hosts, a->n_hosts, &a->capacity, sizeof *a->hosts));
        known = &a->hosts[a->n_hosts++];
    }
    *known = *h;
    return RK_OK;
}

static rk_status resolve_and_store(rk_redis_address_cache *a, host_addresses *h) {
    RK_TRY(resolve_host_addresses(h));
    pthread_mutex_lock(&a->mutex);
    rk_status status = store_addresses(a, h);
    pthread_mutex_unlock(&a->mutex);
    return status;
}

rk_status rk_redis_address_cache_get(rk_redis_address_cache *a, const char *host, int port,
                                     rk_redis_address out[RK_REDIS_MAX_ADDRESSES], size_t *n) {
    host_addresses h = {.port = port};
    snprintf(h.host, sizeof h.host, "%s", host);
    pthread_mutex_lock(&a->mutex);
    const host_addresses *known = find_known_host(a, h.host, port);
    if (known) h = *known;
    pthread_mutex_unlock(&a->mutex);
    if (!known) RK_TRY(resolve_and_store(a, &h));
    memcpy(out, h.list, h.n * sizeof *out);
    *n = h.n;
    return RK_OK;
}

void rk_redis_address_cache_refresh(rk_redis_address_cache *a) {
    for (size_t i = 0;; i++) {
        pthread_mutex_lock(&a->mutex);
        bool is_end = i >= a->n_hosts;
        host_addresses h = is_end ? (host_addresses){0} : a->hosts[i];
        pthread_mutex_unlock(&a->mutex);
        if (is_end) return;
        (void)resolve_and_store(a, &h);
    }
}
