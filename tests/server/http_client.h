/* A request to a server in the same process, over a connection of its own. */
#ifndef RK_TESTS_SERVER_HTTP_CLIENT_H
#define RK_TESTS_SERVER_HTTP_CLIENT_H

#include "testing.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* head: as "GET /metrics". The answer's code; 0: the connection ended without one. The answer's body, as far
 * as it has room, ends up in out[n_bytes], which may be NULL. */
static int ask(int port, const char *head, const char *body, char *out, size_t n_bytes) {
    static char request[1 << 16], answer[1 << 16];
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int s = socket(AF_INET, SOCK_STREAM, 0), code = 0;
    assert_int_equal(connect(s, (const struct sockaddr *)&address, sizeof address), 0);
    int n = snprintf(request, sizeof request,
                     "%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s", head,
                     strlen(body), body);
    assert_true((size_t)n < sizeof request);
    assert_int_equal(send(s, request, (size_t)n, MSG_NOSIGNAL), n);
    size_t n_got = 0;
    for (ssize_t got; (got = recv(s, answer + n_got, sizeof answer - 1 - n_got, 0)) > 0;)
        n_got += (size_t)got;
    close(s);
    answer[n_got] = 0;
    sscanf(answer, "HTTP/1.1 %d", &code);
    const char *at = strstr(answer, "\r\n\r\n");
    if (out) snprintf(out, n_bytes, "%s", at ? at + 4 : "");
    return code;
}

#endif
