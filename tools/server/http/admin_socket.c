#include "server/http/admin_socket.h"

#include <errno.h>
#include <microhttpd.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/memory.h"
#include "server/http/http_header_checks.h"

enum { MOST_BYTES = 65536, MOST_CONNECTIONS = 16, IDLE_SECONDS = 60 };

struct rk_admin {
    rk_repository repository;
    char *path;
    int listening;     /* -1: not yet, or libmicrohttpd's */
    struct stat bound; /* the socket that is ours; st_ino 0: none */
    struct MHD_Daemon *daemon;
};

/* A request. */
typedef struct exchange {
    rk_buffer body;
    bool begun, too_large;
} exchange;

static enum MHD_Result send_reply(struct MHD_Connection *connection, int code, const rk_buffer *reply) {
    static const char none[] = "{\"error\": \"memory ran out\"}\n";
    bool whole = reply->status == RK_OK;
    struct MHD_Response *response =
        whole
            ? MHD_create_response_from_buffer(reply->n_bytes, reply->data, MHD_RESPMEM_MUST_COPY)
            : MHD_create_response_from_buffer(sizeof none - 1, (void *)(size_t)none, MHD_RESPMEM_PERSISTENT);
    if (!response) return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    if (code == 405) MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "POST");
    if (code == 400 || code == 413 || !whole)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    enum MHD_Result queued = MHD_queue_response(connection, (unsigned)(whole ? code : 503), response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result refuse_request(struct MHD_Connection *connection, int code, const char *reason) {
    RK_AUTO(rk_buffer_release) rk_buffer reply = {0};
    rk_buffer_printf(&reply, "{\"error\": \"%s\"}\n", reason);
    return send_reply(connection, code, &reply);
}

static void append_body(exchange *e, const char *data, size_t n_bytes) {
    e->too_large |= n_bytes > MOST_BYTES - e->body.n_bytes;
    if (!e->too_large) rk_buffer_append(&e->body, data, n_bytes);
}

static enum MHD_Result handle_request(void *context, struct MHD_Connection *connection, const char *url,
                                      const char *method, const char *version, const char *data,
                                      size_t *n_bytes, void **request) {
    const rk_admin *admin = context;
    exchange *e = *request;
    if (!e) {
        const char *wrong = rk_http_check_framing(connection, version);
        if (wrong) return refuse_request(connection, 400, wrong);
        if (strcmp(method, MHD_HTTP_METHOD_POST) != 0)
            return refuse_request(connection, 405, "only POST is taken");
        if (rk_alloc(1, sizeof *e, &e) != RK_OK) return refuse_request(connection, 503, "memory ran out");
        *request = e;
        return MHD_YES;
    }
    if (*n_bytes > 0) {
        append_body(e, data, *n_bytes);
        *n_bytes = 0;
        return MHD_YES;
    }
    if (e->too_large) return refuse_request(connection, 413, "the request's body is too large");
    if (e->body.status != RK_OK) return refuse_request(connection, 503, "memory ran out");
    RK_AUTO(rk_buffer_release) rk_buffer reply = {0};
    const rk_span body = {e->body.data, e->body.n_bytes};
    int code = rk_repository_answer(&admin->repository, url, body, &reply);
    return send_reply(connection, code, &reply);
}

static void complete_request(void *context, struct MHD_Connection *connection, void **request,
                             enum MHD_RequestTerminationCode code) {
    exchange *e = *request;
    (void)context, (void)connection, (void)code;
    if (!e) return;
    rk_buffer_release(&e->body);
    rk_free(e);
    *request = NULL;
}

/* A socket that a server left which did not end well. */
static rk_status remove_stale_socket(const char *path, const struct sockaddr_un *address) {
    struct stat there;
    if (lstat(path, &there) != 0) return RK_OK;
    RK_FAIL_IF(!S_ISSOCK(there.st_mode), RK_CONFIG, "key 'admin.socket': '%s' is there and no socket", path);
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (probe < 0) return rk_error_errno(RK_IO, errno, "could not make a socket");
    bool answers = connect(probe, (const struct sockaddr *)address, sizeof *address) == 0;
    close(probe);
    RK_FAIL_IF(answers, RK_BUSY, "another program listens at '%s'\nhint: each server has a socket of its own",
               path);
    if (unlink(path) != 0 && errno != ENOENT)
        return rk_error_errno(RK_IO, errno, "could not replace '%s'", path);
    return RK_OK;
}

/* Its mode is there from the first moment on: Linux takes that of the descriptor. */
static rk_status listen_on_socket(rk_admin *admin) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    RK_FAIL_IF(strlen(admin->path) >= sizeof address.sun_path, RK_CONFIG,
               "key 'admin.socket': '%s' is longer than the %zu bytes that a socket's path may have",
               admin->path, sizeof address.sun_path - 1);
    strcpy(address.sun_path, admin->path);
    RK_TRY(remove_stale_socket(admin->path, &address));
    admin->listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (admin->listening < 0 || fchmod(admin->listening, S_IRUSR | S_IWUSR) != 0 ||
        bind(admin->listening, (const struct sockaddr *)&address, sizeof address) != 0)
        return rk_error_errno(RK_IO, errno, "could not listen at '%s'", admin->path);
    if (chmod(admin->path, S_IRUSR | S_IWUSR) != 0 || lstat(admin->path, &admin->bound) != 0 ||
        listen(admin->listening, MOST_CONNECTIONS) != 0)
        return rk_error_errno(RK_IO, errno, "could not listen at '%s'", admin->path);
    return RK_OK;
}

static rk_status start_daemon(rk_admin *admin, const char *path) {
    RK_TRY(rk_strdup(path, &admin->path));
    RK_TRY(listen_on_socket(admin));
    errno = 0;
    admin->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL, 0, NULL, NULL,
        handle_request, admin, MHD_OPTION_LISTEN_SOCKET, admin->listening, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)MOST_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_COMPLETED, complete_request, NULL, MHD_OPTION_END);
    if (!admin->daemon)
        return rk_error_errno(RK_IO, errno ? errno : EINVAL, "could not listen at '%s'", admin->path);
    admin->listening = -1;
    return RK_OK;
}

rk_status rk_admin_start(const char *path, const rk_repository *repository, rk_admin **out) {
    rk_admin *admin;
    RK_TRY(rk_alloc(1, sizeof *admin, &admin));
    admin->repository = *repository;
    admin->listening = -1;
    rk_status status = start_daemon(admin, path);
    if (status == RK_OK)
        *out = admin;
    else
        rk_admin_free(admin);
    return status;
}

static void remove_socket(const rk_admin *admin) {
    struct stat there;
    if (admin->bound.st_ino && lstat(admin->path, &there) == 0 && there.st_ino == admin->bound.st_ino &&
        there.st_dev == admin->bound.st_dev)
        unlink(admin->path);
}

void rk_admin_free(rk_admin *admin) {
    if (!admin) return;
    remove_socket(admin); /* first: who comes later finds nobody, not one that does not answer */
    if (admin->daemon) MHD_stop_daemon(admin->daemon);
    if (admin->listening >= 0) close(admin->listening);
    RK_FREE_ALL(admin->path, admin);
}
