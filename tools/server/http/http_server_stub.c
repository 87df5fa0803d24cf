/* For builds without libmicrohttpd. */
#include "server/http/admin_socket.h"
#include "server/http/http_server.h"

rk_status rk_http_start(const rk_http_options *options, rk_http **out) {
    (void)options, (void)out;
    return rk_error(RK_UNSUPPORTED,
                    "this build cannot serve\nhint: install libmicrohttpd-dev, configure and build again");
}
int rk_http_port(const rk_http *http) {
    (void)http;
    return 0;
}
void rk_http_set_ready(rk_http *http, bool ready) {
    (void)http, (void)ready;
}
void rk_http_drain_requests(rk_http *http, double seconds) {
    (void)http, (void)seconds;
}
void rk_http_free(rk_http *http) {
    (void)http;
}
rk_status rk_admin_start(const char *path, const rk_repository *repository, rk_admin **out) {
    (void)path, (void)repository, (void)out;
    return RK_UNSUPPORTED;
}
void rk_admin_free(rk_admin *admin) {
    (void)admin;
}
