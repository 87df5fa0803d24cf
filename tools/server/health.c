/* Asks a server whether it is ready, as a balancer does: what a container's health check runs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <reckon/experimental/server.h>

#include "base/thread/clock.h"
#include "server/http/address.h"
#include "server/server_config.h"

static const char request[] = "GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
enum { STATUS_LINE_BYTES = 12 }; /* "HTTP/1.1 200" */

static rk_status unreachable(const char *listen) {
    int code = errno == EAGAIN || errno == EINPROGRESS ? ETIMEDOUT : errno; /* a socket's own time is over */
    return rk_error_errno(RK_IO, code, "could not ask the server at '%s'", listen);
}

static rk_status ask(int fd, const rk_address *address, const char *listen, double timeout, char *line) {
    double until = rk_clock_seconds() + timeout;
    struct timeval most = {.tv_sec = (time_t)timeout,
                           .tv_usec = (suseconds_t)((timeout - (double)(time_t)timeout) * 1e6)};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    if (connect(fd, (const struct sockaddr *)&address->storage, address->n_bytes) != 0)
        return unreachable(listen);
    if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) < 0) return unreachable(listen);
    for (size_t n = 0; n < STATUS_LINE_BYTES;) {
        ssize_t got = recv(fd, line + n, STATUS_LINE_BYTES - n, 0);
        if (got < 0) return unreachable(listen);
        RK_FAIL_IF(
            got == 0 || rk_clock_seconds() > until, RK_IO,
            "the server at '%s' gave no answer in HTTP\nhint: does it speak TLS? curl can ask such a server",
            listen);
        n += (size_t)got;
    }
    return RK_OK;
}

static rk_status ask_at(const char *listen, double timeout) {
    rk_address address;
    char line[STATUS_LINE_BYTES + 1] = "";
    RK_TRY(rk_address_read(listen, &address));
    int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return unreachable(listen);
    rk_status status = ask(fd, &address, listen, timeout, line);
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
    if (!rk_is_server_file(server)) return ask_at(server, timeout);
    rk_server_config config;
    RK_TRY(rk_server_config_load(server, NULL, &config));
    rk_status status = config.tls.key ? rk_error(RK_UNSUPPORTED,
                                                 "%s: key 'tls': a server that speaks TLS is not asked\n"
                                                 "hint: curl --cacert FILE https://HOST:PORT/v2/health/ready",
                                                 server)
                                      : ask_at(config.listen, timeout);
    rk_server_config_release(&config);
    return status;
}
