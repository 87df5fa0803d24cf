/* Buffers of messages, kept for the next ones. Not thread-safe: its owner's mutex is held. */
#ifndef RK_COMM_MESSAGE_POOL_H
#define RK_COMM_MESSAGE_POOL_H

#include <stddef.h>

#include "base/error.h"

/* Sizes are 64, 80, 96, 112, 128, 160, ... bytes: four in each doubling. */
enum { RK_MESSAGE_SIZES = 4 * 40 };

typedef struct rk_message_pool {
    void *idle[RK_MESSAGE_SIZES]; /* lists through the buffers' first bytes */
} rk_message_pool;

/* A buffer of at least n_bytes, 64-byte aligned, of any content; one that is kept, or a new one. */
rk_status rk_message_pool_acquire(rk_message_pool *pool, size_t n_bytes, void **out);
void rk_message_pool_return(rk_message_pool *pool, void *data); /* NULL is fine */
size_t rk_message_capacity(const void *data);
void rk_message_pool_release(rk_message_pool *pool);

#endif
