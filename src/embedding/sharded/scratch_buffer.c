#include "embedding/sharded/scratch_buffer.h"

#include "base/memory.h"

rk_status rk_scratch_buffer_reserve(rk_scratch_buffer *buffer, size_t n_bytes) {
    if (n_bytes > buffer->capacity) {
        rk_pages_free(buffer->data, buffer->capacity);
        *buffer = (rk_scratch_buffer){0};
        RK_TRY(rk_pages_alloc(n_bytes + n_bytes / 4, &buffer->data));
        buffer->capacity = n_bytes + n_bytes / 4;
    }
    buffer->n_bytes = n_bytes;
    return RK_OK;
}

void rk_scratch_buffer_release(rk_scratch_buffer *buffer) {
    rk_pages_free(buffer->data, buffer->capacity);
    *buffer = (rk_scratch_buffer){0};
}
