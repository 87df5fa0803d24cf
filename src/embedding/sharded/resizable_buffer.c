#include "embedding/sharded/resizable_buffer.h"

#include "base/memory.h"

rk_status rk_resizable_buffer_reserve(rk_resizable_buffer *buffer, size_t n_bytes) {
    if (n_bytes > buffer->capacity) {
        rk_pages_free(buffer->data, buffer->capacity);
        *buffer = (rk_resizable_buffer){0};
        RK_TRY(rk_pages_alloc(n_bytes + n_bytes / 4, &buffer->data));
        buffer->capacity = n_bytes + n_bytes / 4;
    }
    buffer->n_bytes = n_bytes;
    return RK_OK;
}

void rk_resizable_buffer_release(rk_resizable_buffer *buffer) {
    rk_pages_free(buffer->data, buffer->capacity);
    *buffer = (rk_resizable_buffer){0};
}
