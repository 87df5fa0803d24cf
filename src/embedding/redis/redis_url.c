#include <string.h>

#include "base/memory.h"
#include "base/text/text.h"
#include "embedding/redis/redis_client.h"

enum { USUAL_PORT = 6379, MAX_HOST_BYTES = 255, MAX_PREFIX_BYTES = 200 };

/* HOST, HOST:PORT or [HOST]:PORT. */
static rk_status parse_host(const char *text, size_t n, rk_redis_url *out) {
    const char *colon = memrchr(text, ':', n), *close = memrchr(text, ']', n);
    int64_t port = USUAL_PORT;
    size_t n_host = n;
    if (colon && (!close || colon > close)) {
        n_host = (size_t)(colon - text);
        if (!rk_parse_i64((rk_span){colon + 1, n - n_host - 1}, &port)) port = 0;
    }
    RK_FAIL_IF(port < 1 || port > 65535, RK_CONFIG, "'%.*s' has no port behind the colon", (int)n, text);
    bool brackets = n_host > 2 && text[0] == '[' && text[n_host - 1] == ']';
    size_t begin = brackets, bytes = n_host - 2 * begin;
    RK_FAIL_IF(bytes == 0 || bytes > MAX_HOST_BYTES, RK_CONFIG, "'%.*s' names no host", (int)n, text);
    out->port = (int)port;
    return rk_strndup(text + begin, bytes, &out->host);
}

static rk_status parse_key_prefix(const char *text, rk_redis_url *out) {
    RK_FAIL_IF(!*text, RK_CONFIG, "it has no prefix for the keys\nhint: as redis://127.0.0.1:6379/ads");
    for (const char *at = text; *at; at++)
        RK_FAIL_IF((unsigned char)*at <= ' ' || *at == 127, RK_CONFIG,
                   "the prefix '%s' has spaces or control characters", text);
    RK_FAIL_IF(strlen(text) > MAX_PREFIX_BYTES, RK_CONFIG, "the prefix '%.40s...' is longer than %d bytes",
               text, MAX_PREFIX_BYTES);
    return rk_strdup(text, &out->prefix);
}

static rk_status parse_url(const char *text, rk_redis_url *out) {
    static const char scheme[] = "redis://";
    RK_FAIL_IF(strncmp(text, scheme, strlen(scheme)) != 0, RK_CONFIG, "it does not begin with %s%s", scheme,
               strncmp(text, "rediss:", 7) == 0 ? "; TLS to Redis is not supported" : "");
    const char *host = text + strlen(scheme), *slash = strchrnul(host, '/');
    size_t n = (size_t)(slash - host);
    RK_FAIL_IF(memchr(host, '@', n), RK_CONFIG,
               "it has a password in it\nhint: passwords are taken from RK_REDIS_PASSWORD, users from "
               "RK_REDIS_USER");
    RK_TRY(parse_host(host, n, out));
    return parse_key_prefix(*slash ? slash + 1 : slash, out);
}

rk_status rk_redis_url_parse(const char *text, rk_redis_url *out) {
    *out = (rk_redis_url){0};
    rk_status status = parse_url(text, out);
    if (status == RK_OK) return RK_OK;
    rk_redis_url_release(out);
    return status == RK_CONFIG ? rk_error_context(status, "the address of Redis") : status;
}

void rk_redis_url_release(rk_redis_url *url) {
    RK_FREE_ALL(url->host, url->prefix);
    *url = (rk_redis_url){0};
}
