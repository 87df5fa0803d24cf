/* The client's side of TLS 1.2 and 1.3, for who asks whether a server is ready. That sends no secret, so
 * certificates are not looked at, as Kubernetes' probes have it. */
#ifndef RK_SERVER_TLS_CLIENT_H
#define RK_SERVER_TLS_CLIENT_H

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

typedef struct rk_tls_client rk_tls_client;

/* Over a connected socket, which stays the caller's, within so many seconds. `server` is for messages.
 * Errors: RK_IO, RK_NO_MEMORY, RK_UNSUPPORTED (a build without GnuTLS). */
rk_status rk_tls_connect(int descriptor, const char *server, double timeout, rk_tls_client **out);
void rk_tls_close(rk_tls_client *client);
/* As send and recv, with errno. */
ssize_t rk_tls_send(rk_tls_client *client, const void *data, size_t n_bytes);
ssize_t rk_tls_receive(rk_tls_client *client, void *data, size_t n_bytes);

#endif
