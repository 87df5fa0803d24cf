/* Requests of the user's own that each new version answers before it takes others. */
#ifndef RK_SERVER_WARMUP_H
#define RK_SERVER_WARMUP_H

#include "server/request/inference_call.h"

/* path: a body of :predict, of a two_tower of :retrieve, a line; each is answered by each worker's session.
 * Errors name the file and the line: RK_BAD_DATA, or what such a request is refused for. */
rk_status rk_warm_up_version(rk_served_version *version, const char *path, const rk_call_limits *limits);

#endif
