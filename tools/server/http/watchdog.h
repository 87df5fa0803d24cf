/* Deadlines of connections. libmicrohttpd knows only how long nothing has come, which a client that sends a
 * byte now and then outlives: a thread of its own looks at how long headers, requests and pauses last, and
 * shuts down what lasts too long. */
#ifndef RK_SERVER_WATCHDOG_H
#define RK_SERVER_WATCHDOG_H

#include "base/error.h"

struct MHD_Connection;
typedef struct rk_watchdog rk_watchdog;
typedef struct rk_watched rk_watched; /* a connection */

typedef struct rk_watchdog_limits {
    double headers, request, idle; /* seconds */
} rk_watchdog_limits;

rk_status rk_watchdog_create(const rk_watchdog_limits *limits, rk_watchdog **out);
void rk_watchdog_free(rk_watchdog *watchdog);

/* A connection has been accepted: its first headers are waited for. NULL: no memory. */
rk_watched *rk_watchdog_add(rk_watchdog *watchdog, int descriptor);
void rk_watchdog_remove(rk_watchdog *watchdog, rk_watched *watched); /* before its descriptor is closed */
rk_watched *rk_watchdog_find(struct MHD_Connection *connection);

/* NULL is fine for all: a request's line is there; all its headers are; it has ended. */
void rk_watched_begin(rk_watched *watched);
void rk_watched_headers(rk_watched *watched);
void rk_watched_idle(rk_watched *watched);

#endif
