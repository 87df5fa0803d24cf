/* Deadlines of connections. libmicrohttpd knows only how long nothing has come, which a client that sends a
 * byte now and then outlives: a thread of its own looks at how long headers, requests and pauses last, and
 * shuts down what lasts too long. */
#ifndef RK_SERVER_WATCHDOG_H
#define RK_SERVER_WATCHDOG_H

#include "base/error.h"

struct MHD_Connection;
typedef struct rk_watchdog rk_watchdog;
typedef struct rk_watched_connection rk_watched_connection;

typedef struct rk_watchdog_limits {
    double headers, request, idle; /* seconds */
} rk_watchdog_limits;

rk_status rk_watchdog_create(const rk_watchdog_limits *limits, rk_watchdog **out);
void rk_watchdog_free(rk_watchdog *watchdog);

/* A connection has been accepted: its first headers are waited for. NULL: no memory. */
rk_watched_connection *rk_watchdog_add(rk_watchdog *watchdog, int descriptor);
void rk_watchdog_remove(rk_watchdog *watchdog,
                        rk_watched_connection *connection); /* before its descriptor is closed */
rk_watched_connection *rk_watchdog_find(struct MHD_Connection *connection);

/* What has happened on a connection: a request's line is there; all its headers are; it has been answered.
 * NULL is fine for all. */
void rk_watched_connection_request_begin(rk_watched_connection *connection);
void rk_watched_connection_headers_received(rk_watched_connection *connection);
void rk_watched_connection_request_end(rk_watched_connection *connection);

#endif
