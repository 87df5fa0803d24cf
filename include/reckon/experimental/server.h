/* A server of trained models over HTTP: TensorFlow Serving's REST API and the Open Inference Protocol
 * (docs/serving.md). Experimental: it may change in any release (docs/api.md). */
#ifndef RECKON_EXPERIMENTAL_SERVER_H
#define RECKON_EXPERIMENTAL_SERVER_H

#include <stddef.h>

#include <reckon/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rk_server rk_server;

typedef struct rk_server_options {
    size_t struct_size;
    const char *listen; /* address and port, in place of the file's; port 0: any that is free */
    const char *name;   /* of a run: what requests call it; NULL: its folder's name. Not with serve.yaml */
} rk_server_options;
#define RK_SERVER_OPTIONS_INIT \
    { sizeof(rk_server_options), 0, 0 }

/* path: serve.yaml (a name that ends in .yaml or .yml), or a trained run. When it returns, models are loaded
 * and warmed, and requests are answered, by threads of the server's own. Errors: RK_CONFIG, naming the file,
 * the line and the key; RK_NOT_FOUND, RK_BAD_DATA (a model); RK_IO (the address is in use); RK_UNSUPPORTED (a
 * build without libmicrohttpd); RK_NO_MEMORY. */
RK_API rk_status rk_server_create(const char *path, const rk_server_options *options, rk_server **out);
RK_API int rk_server_port(const rk_server *server);
/* "http://127.0.0.1:8501", https where it speaks TLS: how this machine reaches it. Where it listens on all
 * addresses, that of loopback. The server's. */
RK_API const char *rk_server_url(const rk_server *server);
/* Looks for new versions of models, until rk_server_stop; then the server is not ready, takes requests for
 * `drain_delay` seconds more, and lets those under way end. */
RK_API rk_status rk_server_run(rk_server *server);
/* From any thread; async-signal-safe. A second call ends the delay. */
RK_API void rk_server_stop(rk_server *server);
RK_API void rk_server_free(rk_server *server);

/* Asks a server that runs, at an address and port or where a serve.yaml says, for /v2/health/ready, within so
 * many seconds; over TLS where the serve.yaml has it, whatever the certificate. RK_OK: it is ready. Errors:
 * RK_BUSY (it answers, and is not ready), RK_IO (it does not answer), RK_UNSUPPORTED (it speaks TLS, and the
 * build has no GnuTLS), RK_CONFIG. */
RK_API rk_status rk_server_health(const char *server, double timeout);

#ifdef __cplusplus
}
#endif
#endif
