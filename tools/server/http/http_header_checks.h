/* What a request's headers may not say. */
#ifndef RK_SERVER_HTTP_HTTP_HEADER_CHECKS_H
#define RK_SERVER_HTTP_HTTP_HEADER_CHECKS_H

#include <stdbool.h>

struct MHD_Connection;

/* Framing that two readers could understand in two ways, by which requests are smuggled past proxies (RFC
 * 9112, 6.3 and 11.2): more than one Content-Length, or one that is no number; Content-Length beside
 * Transfer-Encoding; a coding other than chunked; names with spaces or NULs. NULL: none; else why. */
const char *rk_http_check_framing(struct MHD_Connection *connection, const char *version);

/* Whether "Bearer TOKEN" has a token of the lines of `tokens`, compared in a time that does not tell how much
 * of it is right. tokens NULL: all may ask. */
bool rk_http_check_bearer(const char *authorization, const char *tokens);

#endif
