#include "base/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text/text.h"

void rk_buffer_release(rk_buffer *buffer) {
    rk_free(buffer->data);
    *buffer = (rk_buffer){0};
}

void rk_buffer_clear(rk_buffer *buffer) {
    buffer->n_bytes = 0;
    buffer->status = RK_OK;
}

/* Room for n_bytes more and a NUL; false (with the status kept) if there is none. */
static bool reserve_bytes(rk_buffer *buffer, size_t n_bytes) {
    if (buffer->status != RK_OK) return false;
    size_t need = buffer->n_bytes + n_bytes + 1;
    size_t more = buffer->capacity ? buffer->capacity + buffer->capacity / 4 : 64;
    if (need > buffer->capacity)
        buffer->status = rk_array_grow_to(&buffer->data, &buffer->capacity, need < more ? more : need, 1);
    return buffer->status == RK_OK;
}

rk_status rk_buffer_detach(rk_buffer *buffer, char **out) {
    rk_buffer_append(buffer, "", 0); /* nothing is an empty string too */
    RK_TRY(buffer->status);
    *out = buffer->data;
    *buffer = (rk_buffer){0};
    return RK_OK;
}

char *rk_buffer_extend(rk_buffer *buffer, size_t n_bytes) {
    if (!reserve_bytes(buffer, n_bytes)) return NULL;
    char *begin = buffer->data + buffer->n_bytes;
    buffer->n_bytes += n_bytes;
    buffer->data[buffer->n_bytes] = 0;
    return begin;
}

void rk_buffer_append(rk_buffer *buffer, const void *data, size_t n_bytes) {
    char *to = rk_buffer_extend(buffer, n_bytes);
    if (to && n_bytes) memcpy(to, data, n_bytes);
}

void rk_buffer_append_text(rk_buffer *buffer, const char *text) {
    rk_buffer_append(buffer, text, strlen(text));
}

void rk_buffer_printf(rk_buffer *buffer, const char *format, ...) {
    va_list list, again;
    va_start(list, format);
    va_copy(again, list);
    int n = rk_vsnprintf(NULL, 0, format, list);
    va_end(list);
    if (n >= 0 && reserve_bytes(buffer, (size_t)n)) {
        rk_vsnprintf(buffer->data + buffer->n_bytes, (size_t)n + 1, format, again);
        buffer->n_bytes += (size_t)n;
    }
    va_end(again);
}

void rk_buffer_append_u8(rk_buffer *buffer, uint8_t value) {
    rk_buffer_append(buffer, &value, 1);
}

static void append_little_endian(rk_buffer *buffer, uint64_t value, int n_bytes) {
    uint8_t bytes[8];
    for (int i = 0; i < n_bytes; i++) bytes[i] = (uint8_t)(value >> (8 * i));
    rk_buffer_append(buffer, bytes, (size_t)n_bytes);
}

void rk_buffer_append_u32le(rk_buffer *buffer, uint32_t value) {
    append_little_endian(buffer, value, 4);
}

void rk_buffer_append_u64le(rk_buffer *buffer, uint64_t value) {
    append_little_endian(buffer, value, 8);
}
