/* Memory, in whole pages, that grows to the largest message so far and is kept. Growing it loses the
 * content. */
#ifndef RK_EMBEDDING_SHARDED_RESIZABLE_BUFFER_H
#define RK_EMBEDDING_SHARDED_RESIZABLE_BUFFER_H

#include <stddef.h>

#include <reckon/status.h>

typedef struct rk_resizable_buffer {
    void *data;
    size_t n_bytes, capacity;
} rk_resizable_buffer;
rk_status rk_resizable_buffer_reserve(rk_resizable_buffer *buffer, size_t n_bytes);
void rk_resizable_buffer_release(rk_resizable_buffer *buffer);

#endif
