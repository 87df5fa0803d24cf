/* Models, workers and connections, put together; and the time from the first request to the last. */
#include <errno.h>
#include <math.h>
#include <semaphore.h>
#include <string.h>

#include <reckon/experimental/server.h>

#include "base/buffer.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/struct_size.h"
#include "base/thread/clock.h"
#include "base/thread/instruction_set.h"
#include "server/http/admin_socket.h"
#include "server/http/http_server.h"

struct rk_server {
    rk_server_config config;
    rk_served_model *models; /* [config.n_models], of which n_open are open */
    int64_t n_open;
    rk_model_compute_metrics *metrics; /* [config.n_models + 1] */
    rk_batcher *batcher;
    rk_request_log *log; /* NULL: nobody asked for it */
    rk_http *http;
    rk_admin *admin; /* NULL: nobody asked for it */
    char *url;
    sem_t stop;
};

enum { LOG_QUEUE_BYTES = 64 << 20 };

static rk_status open_request_log(rk_server *s) {
    const rk_request_log_section *section = &s->config.request_log;
    const rk_request_log_options options = {.path = section->path,
                                            .sampling_rate = section->sampling_rate,
                                            .max_bytes = section->max_bytes,
                                            .max_files = section->max_files,
                                            .max_queue_bytes = LOG_QUEUE_BYTES};
    return section->path ? rk_request_log_open(&options, &s->log) : RK_OK;
}

/* The host that an address to listen on is reached by, with the brackets of IPv6; "": none is given. */
static const char *host_of_listen_address(const char *listen, int *n_bytes) {
    const char *colon = strrchr(listen, ':');
    *n_bytes = colon ? (int)(colon - listen) : 0;
    const char *host = listen;
    if (*n_bytes == 0 || (*n_bytes == 7 && strncmp(listen, "0.0.0.0", 7) == 0)) host = "127.0.0.1";
    if (*n_bytes == 4 && strncmp(listen, "[::]", 4) == 0) host = "[::1]";
    if (host != listen) *n_bytes = (int)strlen(host);
    return host;
}

static rk_status make_server_url(rk_server *s) {
    RK_AUTO(rk_buffer_release) rk_buffer url = {0};
    int n_bytes;
    const char *host = host_of_listen_address(s->config.listen, &n_bytes);
    rk_buffer_printf(&url, "http%s://%.*s:%d", s->config.tls.certificate ? "s" : "", n_bytes, host,
                     rk_http_port(s->http));
    return rk_buffer_detach(&url, &s->url);
}

static rk_status open_server_parts(rk_server *s) {
    size_t n = (size_t)s->config.n_models;
    int n_workers = (int)s->config.batching.num_batch_threads;
    if (n_workers == 0) n_workers = rk_cpu_count();
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n, s->models), RK_ARRAY(n + 1, s->metrics)));
    for (int64_t m = 0; m < s->config.n_models; m++) {
        s->n_open++; /* closed after a failure too */
        const rk_version_use use = {&s->config.models[m], &s->config.limits, n_workers};
        RK_TRY(rk_served_model_open(&use, &s->models[m]));
    }
    RK_TRY(open_request_log(s));
    const rk_batcher_options batching = {
        .n_workers = n_workers,
        .max_batch_size = s->config.batching.max_batch_size,
        .max_enqueued = s->config.batching.max_enqueued_requests,
        .batch_timeout = (double)s->config.batching.batch_timeout_micros / 1e6,
        .limits = rk_call_limits_of(&s->config.limits),
        .log = s->log};
    RK_TRY(rk_batcher_create(&batching, &s->batcher));
    const rk_http_options http = {.config = &s->config,
                                  .models = s->models,
                                  .metrics = s->metrics,
                                  .batcher = s->batcher,
                                  .log = s->log};
    RK_TRY(rk_http_start(&http, &s->http));
    RK_TRY(make_server_url(s));
    const rk_repository repository = {.models = s->models, .n_models = s->config.n_models};
    const char *socket = s->config.admin.socket;
    return socket ? rk_admin_start(socket, &repository, &s->admin) : RK_OK;
}

rk_status rk_server_create(const char *path, const rk_server_options *options, rk_server **out) {
    rk_server_options o = RK_SERVER_OPTIONS_INIT;
    RK_TRY(rk_options_copy_in(&o, sizeof o, options, RK_SIZE_WITH(rk_server_options, listen),
                              "rk_server_options"));
    rk_server *s;
    RK_TRY(rk_alloc(1, sizeof *s, &s));
    sem_init(&s->stop, 0, 0);
    rk_status status;
    RK_GOTO(rk_server_config_load(path, o.name, &s->config));
    if (o.listen) {
        rk_free(s->config.listen);
        s->config.listen = NULL;
        RK_GOTO(rk_strdup(o.listen, &s->config.listen));
    }
    RK_GOTO(open_server_parts(s));
    *out = s;
    s = NULL;
done:
    rk_server_free(s);
    return status;
}

/* A connection can end only when no worker has its call; and connections that are kept may still bring calls
 * until they have all ended, so that the batcher, which refuses them then, is freed last. */
void rk_server_free(rk_server *s) {
    if (!s) return;
    rk_admin_free(s->admin);
    if (s->http) rk_http_drain_requests(s->http, 0);
    rk_batcher_stop(s->batcher);
    rk_http_free(s->http);
    rk_batcher_free(s->batcher);
    rk_request_log_close(s->log);
    for (int64_t m = 0; m < s->n_open; m++) rk_served_model_close(&s->models[m]);
    rk_server_config_release(&s->config);
    sem_destroy(&s->stop);
    RK_FREE_ALL(s->models, s->metrics, s->url, s);
}

int rk_server_port(const rk_server *s) {
    return rk_http_port(s->http);
}

const char *rk_server_url(const rk_server *s) {
    return s->url;
}

/* Returns whether it was told to stop within so many seconds. */
static bool wait_for_stop(rk_server *s, double seconds) {
    struct timespec until = rk_clock_deadline(CLOCK_REALTIME, seconds);
    int code;
    while ((code = sem_timedwait(&s->stop, &until)) != 0 && errno == EINTR) continue;
    return code == 0;
}

static bool is_stopping(rk_server *s) {
    int n = 0;
    return sem_getvalue(&s->stop, &n) == 0 && n > 0;
}

/* Rows in Redis are looked after each second, whether requests come or not: nobody sends them to a server
 * that is not ready. */
static const double rows_interval = 1;

/* Each takes up to its timeout; who is to stop waits for one at most. */
static void check_model_rows(rk_server *s) {
    for (int64_t m = 0; m < s->n_open && !is_stopping(s); m++)
        if (rk_served_model_check_rows(&s->models[m]) != RK_OK)
            rk_log(RK_LOG_DEBUG, "model '%s': %s", s->config.models[m].name, rk_last_error());
}

static void refresh_models(rk_server *s) {
    for (int64_t m = 0; m < s->n_open; m++)
        if (rk_served_model_refresh(&s->models[m]) != RK_OK)
            rk_log(RK_LOG_DEBUG, "model '%s': %s", s->config.models[m].name, rk_last_error());
}

rk_status rk_server_run(rk_server *s) {
    const rk_server_config *c = &s->config;
    double interval = c->reload_interval > 0 ? c->reload_interval : INFINITY, waited = 0;
    double step = interval < rows_interval ? interval : rows_interval;
    for (; !wait_for_stop(s, step); waited += step) {
        check_model_rows(s);
        if (waited + step < interval) continue;
        refresh_models(s);
        waited = -step;
    }
    rk_http_set_ready(s->http, false);
    rk_admin_free(s->admin);
    s->admin = NULL;
    wait_for_stop(s, c->drain_delay); /* a second request to stop does not wait */
    rk_http_drain_requests(s->http, c->drain_timeout);
    return RK_OK;
}

void rk_server_stop(rk_server *s) {
    sem_post(&s->stop);
}
