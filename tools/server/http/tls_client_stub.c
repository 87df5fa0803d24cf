/* Of a build without GnuTLS. */
#include <errno.h>

#include "server/http/tls_client.h"

rk_status rk_tls_connect(int descriptor, const char *server, double timeout, rk_tls_client **out) {
    (void)descriptor;
    (void)timeout;
    (void)out;
    return rk_error(RK_UNSUPPORTED,
                    "the server at '%s' speaks TLS, and this build has no GnuTLS to ask it\n"
                    "hint: curl --cacert FILE https://HOST:PORT/v2/health/ready",
                    server);
}

void rk_tls_close(rk_tls_client *client) {
    (void)client;
}

ssize_t rk_tls_send(rk_tls_client *client, const void *data, size_t n_bytes) {
    (void)client;
    (void)data;
    (void)n_bytes;
    errno = ENOSYS;
    return -1;
}

ssize_t rk_tls_receive(rk_tls_client *client, void *data, size_t n_bytes) {
    (void)client;
    (void)data;
    (void)n_bytes;
    errno = ENOSYS;
    return -1;
}
