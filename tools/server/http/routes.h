/* Which of the server's resources a request names. Names never become paths: they are compared with those of
 * the models that are served. */
#ifndef RK_SERVER_ROUTES_H
#define RK_SERVER_ROUTES_H

#include <stdbool.h>

#include "base/text/text.h"

typedef enum rk_route_kind {
    RK_ROUTE_NONE, /* there is no such resource */
    RK_ROUTE_PREDICT,
    RK_ROUTE_CLASSIFY,
    RK_ROUTE_REGRESS,
    RK_ROUTE_RETRIEVE,
    RK_ROUTE_INFER,
    RK_ROUTE_STATUS,   /* v1: of a model's versions */
    RK_ROUTE_METADATA, /* v1 */
    RK_ROUTE_SERVER,   /* v2 */
    RK_ROUTE_LIVE,     /* v2 */
    RK_ROUTE_READY,    /* v2: of the server */
    RK_ROUTE_MODEL,    /* v2: metadata */
    RK_ROUTE_MODEL_READY,
    RK_ROUTE_METRICS,
    RK_ROUTE_OPENAPI,
    RK_ROUTE_PAGE
} rk_route_kind;

typedef struct rk_route {
    rk_route_kind kind;
    bool post;                     /* else GET */
    rk_span model, version, label; /* data NULL: not named */
} rk_route;

/* url: the path alone, NUL at its end; the route's spans point into it. */
rk_route rk_parse_route(const char *url);

#endif
