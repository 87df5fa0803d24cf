/* A growable byte string. Zero-initialize; the first failure sticks in `status`, so a run of appends is
 * checked once. */
#ifndef RK_BASE_BUFFER_H
#define RK_BASE_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct rk_buffer {
    char *data; /* [n_bytes], NUL after the end if anything was appended */
    size_t n_bytes;
    size_t capacity;
    rk_status status;
} rk_buffer;

void rk_buffer_release(rk_buffer *buffer);
void rk_buffer_clear(rk_buffer *buffer); /* keeps the memory */
/* What was appended, as a string that is the caller's to free, out of the buffer; or why there is none. */
rk_status rk_buffer_detach(rk_buffer *buffer, char **out);
void rk_buffer_append(rk_buffer *buffer, const void *data, size_t n_bytes);
/* n_bytes more, to be written before the next call; NULL if there is no memory. */
char *rk_buffer_extend(rk_buffer *buffer, size_t n_bytes);
void rk_buffer_append_text(rk_buffer *buffer, const char *text);
void rk_buffer_printf(rk_buffer *buffer, const char *format, ...) RK_PRINTF(2, 3);
void rk_buffer_append_u8(rk_buffer *buffer, uint8_t value);
void rk_buffer_append_u32le(rk_buffer *buffer, uint32_t value);
void rk_buffer_append_u64le(rk_buffer *buffer, uint64_t value);

#endif
