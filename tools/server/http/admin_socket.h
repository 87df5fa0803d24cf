/* Requests by hand, over a Unix socket that only the server's user may open: rk_repository_answer over HTTP.
 * Loads may take long; each connection has a thread of its own. */
#ifndef RK_SERVER_ADMIN_H
#define RK_SERVER_ADMIN_H

#include "server/model_repository.h"

typedef struct rk_admin rk_admin;

/* Listens at `path` when it returns; a socket that nobody listens at any more is replaced. Errors: RK_CONFIG
 * (the path), RK_BUSY (another program listens there), RK_IO, RK_UNSUPPORTED (a build without
 * libmicrohttpd). */
rk_status rk_admin_start(const char *path, const rk_repository *repository, rk_admin **out);
/* When the requests under way have ended; removes the socket. */
void rk_admin_free(rk_admin *admin);

#endif
