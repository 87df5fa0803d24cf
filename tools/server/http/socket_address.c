#include "server/http/socket_address.h"

#include <netdb.h>
#include <stdbool.h>
#include <string.h>

#include "base/text/text.h"

rk_status rk_address_parse(const char *text, rk_address *out) {
    char host[256];
    const char *colon = strrchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : 0;
    RK_FAIL_IF(!colon || n >= sizeof host, RK_CONFIG,
               "'%s' is no address with a port to listen at\nhint: as 127.0.0.1:8501", text);
    int64_t port; /* getaddrinfo takes 65537 for 1, and nothing for any */
    RK_FAIL_IF(strspn(colon + 1, "0123456789") < strlen(colon + 1) ||
                   !rk_parse_i64((rk_span){colon + 1, strlen(colon + 1)}, &port) || port < 0 || port > 65535,
               RK_CONFIG, "'%s' has no port from 0 to 65535\nhint: as 127.0.0.1:8501", text);
    memcpy(host, text, n);
    host[n] = 0;
    bool brackets = n > 1 && host[0] == '[' && host[n - 1] == ']';
    if (brackets) host[n - 1] = 0;
    struct addrinfo *found,
        wanted = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    int code = getaddrinfo(host + brackets, colon + 1, &wanted, &found);
    RK_FAIL_IF(code != 0, RK_CONFIG, "'%s' is no address to listen at: %s\nhint: as 127.0.0.1:8501", text,
               gai_strerror(code));
    memcpy(&out->storage, found->ai_addr, found->ai_addrlen);
    out->n_bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return RK_OK;
}
