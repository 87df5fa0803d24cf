/* Memory, in whole pages, that grows to the largest message so far and is kept. Growing it loses the
 * content. */
#ifndef RK_EMBEDDING_SHARDED_SCRATCH_BUFFER_H
#define RK_EMBEDDING_SHARDED_SCRATCH_BUFFER_H

#include <stddef.h>

#include <reckon/status.h>

typedef struct rk_scratch_buffer {
    void *data;
    size_t n_bytes, capacity;
} rk_scratch_buffer;
rk_status rk_scratch_buffer_reserve(rk_scratch_buffer *buffer, size_t n_bytes);
void rk_scratch_buffer_release(rk_scratch_buffer *buffer);

#endif
