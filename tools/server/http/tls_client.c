#include "server/http/tls_client.h"

#include <errno.h>
#include <gnutls/gnutls.h>

#include "base/memory.h"

struct rk_tls_client {
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
};

void rk_tls_close(rk_tls_client *client) {
    if (!client) return;
    if (client->session) gnutls_deinit(client->session);
    if (client->credentials) gnutls_certificate_free_credentials(client->credentials);
    rk_free(client);
}

static rk_status tls_error(const char *server, int code) {
    return rk_error(code == GNUTLS_E_MEMORY_ERROR ? RK_NO_MEMORY : RK_IO,
                    "the server at '%s' gave no answer in TLS: %s", server, gnutls_strerror(code));
}

static rk_status perform_handshake(rk_tls_client *client, int descriptor, const char *server,
                                   double timeout) {
    static const char versions[] = "NORMAL:-VERS-ALL:+VERS-TLS1.2:+VERS-TLS1.3";
    int code = gnutls_init(&client->session, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL);
    if (code == 0) code = gnutls_priority_set_direct(client->session, versions, NULL);
    if (code == 0) code = gnutls_certificate_allocate_credentials(&client->credentials);
    if (code == 0)
        code = gnutls_credentials_set(client->session, GNUTLS_CRD_CERTIFICATE, client->credentials);
    if (code != 0) return tls_error(server, code);
    gnutls_transport_set_int(client->session, descriptor);
    gnutls_handshake_set_timeout(client->session, (unsigned)(timeout * 1e3) + 1);
    do {
        code = gnutls_handshake(client->session);
    } while (code == GNUTLS_E_INTERRUPTED || (code == GNUTLS_E_WARNING_ALERT_RECEIVED));
    return code == 0 ? RK_OK : tls_error(server, code);
}

rk_status rk_tls_connect(int descriptor, const char *server, double timeout, rk_tls_client **out) {
    rk_tls_client *client;
    RK_TRY(rk_alloc(1, sizeof *client, &client));
    rk_status status = perform_handshake(client, descriptor, server, timeout);
    if (status == RK_OK)
        *out = client;
    else
        rk_tls_close(client);
    return status;
}

/* GnuTLS's numbers are negative where a call failed. */
static ssize_t result_of_tls_call(ssize_t n) {
    if (n >= 0) return n;
    errno = n == GNUTLS_E_AGAIN ? EAGAIN : EPROTO;
    return -1;
}

ssize_t rk_tls_send(rk_tls_client *client, const void *data, size_t n_bytes) {
    ssize_t n;
    do {
        n = gnutls_record_send(client->session, data, n_bytes);
    } while (n == GNUTLS_E_INTERRUPTED);
    return result_of_tls_call(n);
}

ssize_t rk_tls_receive(rk_tls_client *client, void *data, size_t n_bytes) {
    ssize_t n;
    do {
        n = gnutls_record_recv(client->session, data, n_bytes);
    } while (n == GNUTLS_E_INTERRUPTED);
    return result_of_tls_call(n);
}
