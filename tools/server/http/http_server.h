/* HTTP/1.1 over libmicrohttpd: connections, limits, what is refused before a request is looked at, and who
 * gets its answer. */
#ifndef RK_SERVER_HTTP_SERVER_H
#define RK_SERVER_HTTP_SERVER_H

#include "server/batcher.h"
#include "server/server_metrics.h"

typedef struct rk_http rk_http;

typedef struct rk_http_options {
    const rk_server_config *config;
    rk_served_model *models;           /* [config->n_models] */
    rk_model_compute_metrics *metrics; /* [config->n_models + 1] as rk_server_metrics_write takes them */
    rk_batcher *batcher;
    const rk_request_log *log; /* NULL: none */
} rk_http_options;

/* Listens when it returns. Errors: RK_CONFIG (an address, a certificate), RK_IO (the port is in use),
 * RK_UNSUPPORTED (a build without libmicrohttpd). */
rk_status rk_http_start(const rk_http_options *options, rk_http **out);
int rk_http_port(const rk_http *http);
void rk_http_set_ready(rk_http *http, bool ready);
/* No new connections; requests under way have so many seconds. */
void rk_http_drain_requests(rk_http *http, double seconds);
/* When no call is with the batcher any more. */
void rk_http_free(rk_http *http);

#endif
