/* "127.0.0.1:8501", "[::1]:8501". */
#ifndef RK_SERVER_ADDRESS_H
#define RK_SERVER_ADDRESS_H

#include <sys/socket.h>

#include "base/error.h"

typedef struct rk_address {
    struct sockaddr_storage storage;
    socklen_t n_bytes;
} rk_address;

/* Numbers alone: no name is looked up. Errors: RK_CONFIG. */
rk_status rk_address_parse(const char *text, rk_address *out);

#endif
