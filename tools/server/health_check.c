/* Asks a server whether it is ready, as a balancer does: what a container's health check runs. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <reckon/experimental/server.h>

#include "base/thread/clock.h"
#include "server/http/socket_address.h"
#include "server/http/tls_client.h"
#include "server/server_config.h"

static const char request[] = "GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
enum { STATUS_LINE_BYTES = 12 }; /* "HTTP/1.1 200" */

static rk_status unreachable_error(const char *listen) {
    int code = errno == EAGAIN || errno == EINPROGRESS ? ETIMEDOUT : errno; /* a socket's own time is over */
    return rk_error_errno(RK_IO, code, "could not ask the server at '%s'", listen);
}

/* A connection, and TLS over it or NULL. */
typedef struct channel {
    int fd;
    rk_tls_client *tls;
} channel;

static ssize_t send_bytes(const channel *c, const char *data, size_t n_bytes) {
    return c->tls ? rk_tls_send(c->tls, data, n_bytes) : send(c->fd, data, n_bytes, MSG_NOSIGNAL);
}

static ssize_t receive_bytes(const channel *c, char *data, size_t n_bytes) {
    return c->tls ? rk_tls_receive(c->tls, data, n_bytes) : recv(c->fd, data, n_bytes, 0);
}

static rk_status request_status_line(const channel *c, const char *listen, double until, char *line) {
    if (send_bytes(c, request, sizeof request - 1) < 0) return unreachable_error(listen);
    for (size_t n = 0; n < STATUS_LINE_BYTES;) {
        ssize_t got = receive_bytes(c, line + n, STATUS_LINE_BYTES - n);
        if (got < 0) return unreachable_error(listen);
        RK_FAIL_IF(got == 0 || rk_clock_seconds() > until, RK_IO,
                   "the server at '%s' gave no answer in HTTP%s", listen,
                   c->tls ? "" : "\nhint: does it speak TLS? reckon health serve.yaml asks such a server");
        n += (size_t)got;
    }
    return RK_OK;
}

/* Where to ask, and how. */
typedef struct asked {
    const char *listen;
    double timeout;
    bool tls;
} asked;

static rk_status ask_address(int fd, const rk_address *address, const asked *a, char *line) {
    const char *listen = a->listen;
    double timeout = a->timeout, until = rk_clock_seconds() + timeout;
    channel c = {fd, NULL};
    struct timeval most = {.tv_sec = (time_t)timeout,
                           .tv_usec = (suseconds_t)((timeout - (double)(time_t)timeout) * 1e6)};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    if (connect(fd, (const struct sockaddr *)&address->storage, address->n_bytes) != 0)
        return unreachable_error(listen);
    if (a->tls) RK_TRY(rk_tls_connect(fd, listen, timeout, &c.tls));
    rk_status status = request_status_line(&c, listen, until, line);
    rk_tls_close(c.tls);
    return status;
}

static rk_status ask_all_addresses(const asked *a) {
    const char *listen = a->listen;
    rk_address address;
    char line[STATUS_LINE_BYTES + 1] = "";
    RK_TRY(rk_address_parse(listen, &address));
    int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return unreachable_error(listen);
    rk_status status = ask_address(fd, &address, a, line);
    close(fd);
    RK_TRY(status);
    RK_FAIL_IF(strncmp(line, "HTTP/1.", 7) != 0, RK_IO, "what listens at '%s' does not speak HTTP", listen);
    RK_FAIL_IF(strcmp(line + 9, "200") != 0, RK_BUSY, "the server at '%s' is not ready: it answers %s",
               listen, line + 9);
    return RK_OK;
}

rk_status rk_server_health(const char *server, double timeout) {
    RK_FAIL_IF(!(timeout > 0 && timeout <= 3600), RK_INVALID_ARGUMENT,
               "a timeout of %g s is not in (0, 3600]", timeout);
    if (!rk_is_server_config_file(server)) return ask_all_addresses(&(asked){server, timeout, false});
    rk_server_config config;
    RK_TRY(rk_server_config_load(server, NULL, &config));
    rk_status status = ask_all_addresses(&(asked){config.listen, timeout, config.tls.key != NULL});
    rk_server_config_release(&config);
    return status;
}
