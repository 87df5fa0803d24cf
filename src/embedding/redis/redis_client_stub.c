/* A build without hiredis. */
#include "embedding/redis/redis_client.h"

rk_status rk_redis_create(const rk_redis_url *url, rk_redis_address_cache *known, rk_redis **out) {
    (void)url, (void)known, (void)out;
    return rk_error(RK_UNSUPPORTED,
                    "this build does not know Redis\nhint: install libhiredis-dev and build Reckon again");
}

void rk_redis_free(rk_redis *redis) {
    (void)redis;
}

rk_status rk_redis_run_commands(rk_redis *redis, const rk_redis_command *commands, size_t n,
                                const rk_redis_limits *limits) {
    (void)redis, (void)commands, (void)n, (void)limits;
    return rk_error(RK_UNSUPPORTED, "this build does not know Redis");
}

rk_status rk_redis_ping(rk_redis *redis, const rk_redis_limits *limits) {
    (void)redis, (void)limits;
    return rk_error(RK_UNSUPPORTED, "this build does not know Redis");
}
