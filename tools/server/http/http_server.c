#include "server/http/http_server.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread/clock.h"
#include "server/model_descriptions.h"
#include "server/http/socket_address.h"
#include "server/http/http_header_checks.h"
#include "server/http/routes.h"
#include "server/http/connection_watchdog.h"
#include "server/openapi.h"
#include "server/status_page.h"

struct rk_http {
    rk_http_options options;
    struct MHD_Daemon *daemon;
    rk_watchdog *watchdog;
    char *certificate, *key, *tokens; /* file contents, or NULL */
    int port;
    double began;
    atomic_bool ready, draining;
    atomic_int n_under_way;
};

enum { REQUEST_ID_BYTES = 128 };

/* A request: its own from the first callback to the last. */
typedef struct exchange {
    rk_http *http;
    struct MHD_Connection *connection;
    rk_route route;
    char *url; /* what the route points into */
    rk_served_model *model;
    rk_call call;
    rk_buffer body;
    bool has_nul, submitted; /* a NUL in the URL, which would end it for us and not for a proxy */
    char nonce[33];          /* of a page; else empty */
    char request_id[REQUEST_ID_BYTES + 1];
    int refused; /* a code that is answered once the body has gone by */
    double began;
} exchange;

static void free_exchange(exchange *e) {
    if (e->call.version) rk_served_version_unref(e->call.version);
    rk_buffer_release(&e->body);
    rk_call_release(&e->call);
    RK_FREE_ALL(e->url, e);
}

static const char *find_header(const exchange *e, const char *name) {
    return MHD_lookup_connection_value(e->connection, MHD_HEADER_KIND, name);
}

/* The page runs its own script and styles alone, talks to this server alone, and stands in no frame. */
static void add_page_security_headers(const exchange *e, struct MHD_Response *response) {
    char policy[300];
    rk_snprintf(policy, sizeof policy,
                "default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; connect-src 'self'; "
                "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
                e->nonce, e->nonce);
    MHD_add_response_header(response, "Content-Security-Policy", policy);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
}

/* An answer that takes no memory of ours. */
static enum MHD_Result send_out_of_memory_reply(struct MHD_Connection *connection) {
    static const char text[] = "{\"error\": \"memory ran out\"}\n";
    struct MHD_Response *response =
        MHD_create_response_from_buffer(sizeof text - 1, (void *)(size_t)text, MHD_RESPMEM_PERSISTENT);
    if (!response) return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    enum MHD_Result queued = MHD_queue_response(connection, 503, response);
    MHD_destroy_response(response);
    return queued;
}

/* The answer in call.code and call.reply, whose bytes become the response's. */
static enum MHD_Result send_call_reply(exchange *e, const char *type, bool close) {
    rk_buffer *reply = &e->call.reply;
    int code = e->call.code;
    if (reply->status != RK_OK) {
        e->call.code = 503;
        return send_out_of_memory_reply(e->connection);
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(reply->n_bytes, reply->data, MHD_RESPMEM_MUST_COPY);
    if (!response) return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (e->call.n_reply_json_bytes >= 0) {
        char text[32];
        snprintf(text, sizeof text, "%lld", (long long)e->call.n_reply_json_bytes);
        MHD_add_response_header(response, "Inference-Header-Content-Length", text);
    }
    if (e->request_id[0]) MHD_add_response_header(response, "X-Request-Id", e->request_id);
    if (e->nonce[0]) add_page_security_headers(e, response);
    if (code == 401) MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (code == 405) MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, e->route.post ? "POST" : "GET");
    if (code == 429 || code == 503) MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    if (close || atomic_load(&e->http->draining))
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    enum MHD_Result queued = MHD_queue_response(e->connection, (unsigned)code, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result send_error(exchange *e, int code, const char *message, bool close) {
    rk_call_fail_with(&e->call, code, message);
    return send_call_reply(e, "application/json", close);
}

/* On a worker's thread. */
static void on_call_done(rk_call *call) {
    exchange *e = (exchange *)((char *)call - offsetof(exchange, call));
    MHD_resume_connection(e->connection);
}

static enum MHD_Result submit_call(exchange *e) {
    const rk_limits_section *limits = &e->http->options.config->limits;
    const char *n_json = find_header(e, "Inference-Header-Content-Length");
    rk_call *call = &e->call;
    call->kind = e->route.kind == RK_ROUTE_INFER      ? RK_CALL_INFER
                 : e->route.kind == RK_ROUTE_CLASSIFY ? RK_CALL_CLASSIFY
                 : e->route.kind == RK_ROUTE_REGRESS  ? RK_CALL_REGRESS
                 : e->route.kind == RK_ROUTE_RETRIEVE ? RK_CALL_RETRIEVE
                                                      : RK_CALL_PREDICT;
    call->body = (rk_span){e->body.data ? e->body.data : "", e->body.n_bytes};
    call->n_json_bytes = call->n_reply_json_bytes = -1;
    if (n_json &&
        (!rk_parse_i64((rk_span){n_json, strlen(n_json)}, &call->n_json_bytes) || call->n_json_bytes < 0))
        return send_error(e, 400, "Inference-Header-Content-Length is no number", false);
    call->deadline = e->began + limits->request_timeout;
    call->received = rk_clock_wall_seconds() - (rk_clock_seconds() - e->began);
    call->request_id = (rk_span){e->request_id, strlen(e->request_id)};
    call->done = on_call_done;
    MHD_suspend_connection(e->connection); /* before a worker can resume it */
    e->submitted = true;
    rk_status status = rk_batcher_submit(e->http->options.batcher, call);
    if (status == RK_OK) return MHD_YES;
    rk_call_fail_with(call, status == RK_BUSY ? 429 : 503, rk_last_error());
    MHD_resume_connection(e->connection);
    return MHD_YES;
}

/* A word that nobody else knows. */
static rk_status make_random_id(char word[33]) {
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[16];
    ssize_t n = getrandom(bytes, sizeof bytes, 0);
    RK_FAIL_IF(n != (ssize_t)sizeof bytes, RK_IO, "the system gave no random bytes");
    for (size_t i = 0; i < sizeof bytes; i++) {
        word[2 * i] = digits[bytes[i] / 16];
        word[2 * i + 1] = digits[bytes[i] % 16];
    }
    word[32] = 0;
    return RK_OK;
}

/* While rows of the version that is asked for, or of any model, cannot be read, others should answer. */
static bool is_server_ready(const exchange *e) {
    const rk_http_options *o = &e->http->options;
    bool ready = atomic_load(&e->http->ready);
    if (e->call.version) return ready && rk_predictor_rows_available(e->call.version->predictor);
    for (int64_t m = 0; m < o->config->n_models; m++)
        ready = ready && rk_served_model_rows_available(&o->models[m]);
    return ready;
}

/* The client's, of characters that are safe in logs and headers, or one that is made. */
static void set_request_id(exchange *e) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:/+=";
    const char *given = find_header(e, "X-Request-Id");
    size_t n = given ? strlen(given) : 0;
    if (n > 0 && n <= REQUEST_ID_BYTES && strspn(given, allowed) == n)
        memcpy(e->request_id, given, n + 1);
    else if (make_random_id(e->request_id) != RK_OK)
        e->request_id[0] = 0;
}

static void write_status_page(exchange *e) {
    const rk_http *http = e->http;
    const rk_page page = {.models = http->options.models,
                          .metrics = http->options.metrics,
                          .n_models = http->options.config->n_models,
                          .counts = rk_batcher_get_counts(http->options.batcher),
                          .ready = is_server_ready(e),
                          .seconds = rk_clock_seconds() - http->began,
                          .nonce = e->nonce};
    rk_write_status_page(&page, &e->call.reply);
}

static const char nothing_there[] = "there is no such model, version or resource";

/* A version that could not be loaded has a state, too. */
static bool describe_status(exchange *e) {
    const rk_route *r = &e->route;
    int64_t number = r->label.data     ? e->call.version->number
                     : r->version.data ? rk_parse_version_number(r->version)
                                       : 0;
    return rk_describe_status(e->model, r->label.data || r->version.data ? &number : NULL, &e->call.reply);
}

/* GET, of which all but the metrics and the page are JSON. */
static enum MHD_Result describe_resource(exchange *e) {
    rk_http *http = e->http;
    rk_buffer *out = &e->call.reply;
    const char *type = "application/json";
    bool ready;
    e->call.code = 200;
    e->call.n_reply_json_bytes = -1;
    switch (e->route.kind) {
        case RK_ROUTE_STATUS:
            if (!describe_status(e)) return send_error(e, 404, nothing_there, false);
            break;
        case RK_ROUTE_METADATA:
            rk_describe_metadata(e->call.version, out);
            break;
        case RK_ROUTE_MODEL:
            rk_describe_model(e->model, e->call.version, out);
            break;
        case RK_ROUTE_SERVER:
            rk_describe_server(out);
            break;
        case RK_ROUTE_LIVE:
            rk_buffer_append_text(out, "{\"live\": true}\n");
            break;
        case RK_ROUTE_OPENAPI:
            if (rk_write_openapi(out) != RK_OK) return send_error(e, 503, rk_last_error(), false);
            break;
        case RK_ROUTE_MODEL_READY:
            ready = is_server_ready(e);
            if (!ready) e->call.code = 503;
            rk_describe_model_ready(e->model, ready, out);
            break;
        case RK_ROUTE_PAGE:
            type = "text/html; charset=utf-8";
            if (make_random_id(e->nonce) != RK_OK) return send_error(e, 500, rk_last_error(), false);
            write_status_page(e);
            break;
        case RK_ROUTE_METRICS:
            type = "text/plain; version=0.0.4";
            rk_server_metrics_write(http->options.metrics, http->options.models,
                                    http->options.config->n_models,
                                    rk_batcher_get_counts(http->options.batcher), out);
            if (http->options.log) rk_server_metrics_write_log(rk_request_log_count(http->options.log), out);
            break;
        default: /* RK_ROUTE_READY */
            ready = is_server_ready(e);
            if (!ready) e->call.code = 503;
            rk_buffer_append_text(out, ready ? "{\"ready\": true}\n" : "{\"ready\": false}\n");
            break;
    }
    return send_call_reply(e, type, false);
}

static bool needs_model(const exchange *e) {
    return e->route.model.data != NULL;
}

static rk_served_model *find_model(const rk_http *http, rk_span name) {
    for (int64_t m = 0; m < http->options.config->n_models; m++)
        if (rk_span_equal(name, http->options.models[m].entry->name)) return &http->options.models[m];
    return NULL;
}

/* The resource, and whether it may be asked for so: 0, or the code of what is wrong. */
static int match_route(exchange *e, const char *method) {
    if (e->route.kind == RK_ROUTE_NONE) return 404;
    if (needs_model(e)) {
        e->model = find_model(e->http, e->route.model);
        if (!e->model) return 404;
        e->call.version = rk_served_model_get_version(e->model, e->route.version, e->route.label);
        bool is_status = e->route.kind == RK_ROUTE_STATUS && !e->route.label.data;
        if (!e->call.version && !is_status) return 404;
    }
    bool head = strcmp(method, MHD_HTTP_METHOD_HEAD) == 0 && !e->route.post;
    return head || strcmp(method, e->route.post ? MHD_HTTP_METHOD_POST : MHD_HTTP_METHOD_GET) == 0 ? 0 : 405;
}

static bool is_health_probe(rk_route_kind kind) {
    return kind == RK_ROUTE_LIVE || kind == RK_ROUTE_READY;
}

static const char *reason_of_code(int code) {
    return code == 401   ? "a bearer token is needed"
           : code == 405 ? "the method is not allowed here"
           : code == 413 ? "the request's body is too large"
           : code == 415 ? "compressed bodies are not taken"
                         : nothing_there;
}

/* Of headers alone: what is answered before a body is read. Framing that proxies may read otherwise ends the
 * connection (RFC 9112, 6.3). */
static enum MHD_Result check_request(exchange *e, const char *method, const char *version) {
    const rk_server_config *config = e->http->options.config;
    const char *wrong = e->has_nul ? "the URL has a NUL" : rk_http_check_framing(e->connection, version);
    if (wrong) return send_error(e, 400, wrong, true);
    int code = match_route(e, method);
    if (!is_health_probe(e->route.kind) &&
        !rk_http_check_bearer(find_header(e, MHD_HTTP_HEADER_AUTHORIZATION), e->http->tokens))
        code = 401;
    const char *length = find_header(e, MHD_HTTP_HEADER_CONTENT_LENGTH),
               *encoding = find_header(e, "Content-Encoding");
    int64_t n_bytes = 0;
    if (code == 0 && encoding && strcasecmp(encoding, "identity") != 0) code = 415;
    /* All of it are digits: what cannot be parsed is larger than any number. */
    if (length && (!rk_parse_i64((rk_span){length, strlen(length)}, &n_bytes) ||
                   n_bytes > config->limits.max_request_bytes))
        return send_error(e, 413, reason_of_code(413), true);
    if (code == 0) return MHD_YES;
    bool has_body = n_bytes > 0 || find_header(e, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    if (has_body) {
        e->refused = code; /* its body is read, and thrown away: the connection can go on */
        return MHD_YES;
    }
    return send_error(e, code, reason_of_code(code), false);
}

static void append_body(exchange *e, const char *data, size_t n_bytes) {
    int64_t most = e->http->options.config->limits.max_request_bytes;
    if (e->refused) return;
    if ((int64_t)(e->body.n_bytes + n_bytes) > most)
        e->refused = 413;
    else
        rk_buffer_append(&e->body, data, n_bytes);
}

static enum MHD_Result answer_request(exchange *e) {
    if (e->submitted)
        return send_call_reply(
            e, e->call.n_reply_json_bytes >= 0 ? "application/octet-stream" : "application/json", false);
    if (e->refused) return send_error(e, e->refused, reason_of_code(e->refused), e->refused == 413);
    if (e->body.status != RK_OK) return send_error(e, 503, "memory ran out", true);
    return e->route.post ? submit_call(e) : describe_resource(e);
}

static enum MHD_Result handle_request(void *context, struct MHD_Connection *connection, const char *url,
                                      const char *method, const char *version, const char *data,
                                      size_t *n_bytes, void **request) {
    exchange *e = *request;
    (void)context;
    if (e && *n_bytes > 0) {
        append_body(e, data, *n_bytes);
        *n_bytes = 0;
        return MHD_YES;
    }
    if (e && e->connection) return answer_request(e);
    if (!e) return send_out_of_memory_reply(connection); /* there was none when its line came */
    e->connection = connection;
    rk_watched_connection_headers_received(rk_watchdog_find(connection));
    set_request_id(e);
    if (rk_strdup(url, &e->url) != RK_OK) return send_error(e, 503, "memory ran out", true);
    e->route = rk_parse_route(e->url);
    return check_request(e, method, version);
}

/* A request's first line is there: its time begins. */
static void *begin_request(void *context, const char *uri, struct MHD_Connection *connection) {
    rk_http *http = context;
    exchange *e;
    if (rk_alloc(1, sizeof *e, &e) != RK_OK) return NULL;
    e->began = rk_clock_seconds();
    e->http = http;
    e->has_nul = strstr(uri, "%00") != NULL;
    e->call.n_reply_json_bytes = -1;
    rk_watched_connection_request_begin(rk_watchdog_find(connection));
    atomic_fetch_add(&http->n_under_way, 1);
    return e;
}

/* Requests for predictions, and what was refused of others, but for probes that found the server not ready;
 * of a request whose headers libmicrohttpd did not take there is nothing to tell. */
static void count_request(const exchange *e) {
    const rk_http_options *o = &e->http->options;
    int code = e->call.code ? e->call.code : RK_CLIENT_CLOSED;
    bool probe = is_health_probe(e->route.kind) || e->route.kind == RK_ROUTE_MODEL_READY;
    if (!e->connection || (!e->route.post && (code < 400 || probe))) return;
    int64_t m = e->model ? e->model - o->models : o->config->n_models;
    rk_server_metrics_count_request(&o->metrics[m], code, rk_clock_seconds() - e->began, e->call.n_rows);
}

static void complete_request(void *context, struct MHD_Connection *connection, void **request,
                             enum MHD_RequestTerminationCode code) {
    rk_http *http = context;
    exchange *e = *request;
    (void)code;
    rk_watched_connection_request_end(rk_watchdog_find(connection));
    if (!e) return;
    *request = NULL;
    count_request(e);
    free_exchange(e);
    atomic_fetch_sub(&http->n_under_way, 1);
}

static void track_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                             enum MHD_ConnectionNotificationCode code) {
    rk_http *http = context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        *socket_context = rk_watchdog_add(
            http->watchdog,
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
    else
        rk_watchdog_remove(http->watchdog, *socket_context);
}

static void log_message(void *context, const char *format, va_list list) {
    char text[512];
    (void)context;
    rk_vsnprintf(text, sizeof text, format, list);
    text[strcspn(text, "\n")] = 0;
    rk_log(RK_LOG_DEBUG, "libmicrohttpd: %s", text);
}

static rk_status read_optional_file(const char *path, char **out) {
    size_t n_bytes;
    return path && *path ? rk_file_read(path, out, &n_bytes) : RK_OK;
}

static rk_status start_daemon(rk_http *http) {
    const rk_server_config *config = http->options.config;
    const rk_limits_section *limits = &config->limits;
    rk_address address;
    RK_TRY(rk_address_parse(config->listen, &address));
    bool v6 = address.storage.ss_family == AF_INET6;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, http->certificate},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, http->key},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, "NORMAL:-VERS-ALL:+VERS-TLS1.2:+VERS-TLS1.3"},
        {MHD_OPTION_END, 0, NULL}};
    struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                     (v6 ? MHD_USE_IPv6 : 0) | (http->key ? MHD_USE_TLS : 0);
    errno = 0;
    http->daemon =
        MHD_start_daemon(flags, 0, NULL, NULL, handle_request, http, MHD_OPTION_EXTERNAL_LOGGER, log_message,
                         NULL, MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address.storage,
                         MHD_OPTION_CONNECTION_LIMIT, (unsigned)limits->max_connections,
                         MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)limits->max_connections_per_ip,
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(limits->idle_timeout + 1),
                         MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK, begin_request, http,
                         MHD_OPTION_NOTIFY_COMPLETED, complete_request, http, MHD_OPTION_NOTIFY_CONNECTION,
                         track_connection, http, MHD_OPTION_ARRAY, http->key ? tls : none, MHD_OPTION_END);
    if (!http->daemon)
        return rk_error_errno(RK_IO, errno ? errno : EINVAL, "could not listen at '%s'", config->listen);
    http->port = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
    return RK_OK;
}

static rk_status start_server(rk_http *http) {
    const rk_server_config *config = http->options.config;
    RK_TRY(read_optional_file(config->tls.certificate, &http->certificate));
    RK_TRY(read_optional_file(config->tls.key, &http->key));
    RK_TRY(read_optional_file(config->auth.bearer_file, &http->tokens));
    const rk_watchdog_limits limits = {.headers = config->limits.header_timeout,
                                       .request = config->limits.request_timeout,
                                       .idle = config->limits.idle_timeout};
    RK_TRY(rk_watchdog_create(&limits, &http->watchdog));
    return start_daemon(http);
}

rk_status rk_http_start(const rk_http_options *options, rk_http **out) {
    rk_http *http;
    RK_TRY(rk_alloc(1, sizeof *http, &http));
    http->options = *options;
    http->began = rk_clock_seconds();
    atomic_init(&http->ready, true);
    rk_status status = start_server(http);
    if (status == RK_OK)
        *out = http;
    else
        rk_http_free(http);
    return status;
}

int rk_http_port(const rk_http *http) {
    return http->port;
}

void rk_http_set_ready(rk_http *http, bool ready) {
    atomic_store(&http->ready, ready);
}

void rk_http_drain_requests(rk_http *http, double seconds) {
    double until = rk_clock_seconds() + seconds;
    if (!atomic_exchange(&http->draining, true)) { /* a second time MHD would give the closed socket again */
        MHD_socket listening = MHD_quiesce_daemon(http->daemon);
        if (listening != MHD_INVALID_SOCKET) close(listening);
    }
    while (atomic_load(&http->n_under_way) > 0 && rk_clock_seconds() < until) usleep(2000);
}

void rk_http_free(rk_http *http) {
    if (!http) return;
    if (http->daemon) MHD_stop_daemon(http->daemon);
    rk_watchdog_free(http->watchdog);
    RK_FREE_ALL(http->certificate, http->key, http->tokens, http);
}
