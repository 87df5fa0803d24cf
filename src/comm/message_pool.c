#include "comm/message_pool.h"

#include <string.h>

#include "base/memory.h"

/* A buffer's size class stands in the 64 bytes before it, which also keep it aligned. */
enum { HEADER_BYTES = 64, LEAST_BITS = 6, REACH = 4 };

static size_t size_class_bytes(int class) {
    return (size_t)(4 + class % 4) << (LEAST_BITS - 2 + class / 4);
}

static int size_class_of(size_t n_bytes) {
    int class = 0;
    while (class < RK_MESSAGE_SIZES && size_class_bytes(class) < n_bytes) class ++;
    return class;
}

static int *size_class_field_of_buffer(const void *data) {
    return (int *)(void *)((char *)(size_t)data - HEADER_BYTES);
}

size_t rk_message_capacity(const void *data) {
    return size_class_bytes(*size_class_field_of_buffer(data));
}

/* Pages: rk_alloc would write zeros over what is about to be received. */
static rk_status allocate_buffer(int class, void **out) {
    void *pages;
    RK_TRY(rk_pages_alloc(HEADER_BYTES + size_class_bytes(class), &pages));
    *out = (char *)pages + HEADER_BYTES;
    *size_class_field_of_buffer(*out) = class;
    return RK_OK;
}

/* One of up to twice the size will do: sizes vary from message to message. */
rk_status rk_message_pool_acquire(rk_message_pool *pool, size_t n_bytes, void **out) {
    int class = size_class_of(n_bytes);
    if (class == RK_MESSAGE_SIZES) return RK_NO_MEMORY_ERROR(n_bytes);
    for (int c = class; c <= class + REACH && c < RK_MESSAGE_SIZES; c++) {
        void *data = pool->idle[c];
        if (!data) continue;
        memcpy(&pool->idle[c], data, sizeof(void *));
        *out = data;
        return RK_OK;
    }
    return allocate_buffer(class, out);
}

void rk_message_pool_return(rk_message_pool *pool, void *data) {
    if (!data) return;
    int class = *size_class_field_of_buffer(data);
    memcpy(data, &pool->idle[class], sizeof(void *));
    pool->idle[class] = data;
}

void rk_message_pool_release(rk_message_pool *pool) {
    for (int c = 0; c < RK_MESSAGE_SIZES; c++) {
        for (void *data = pool->idle[c], *next; data; data = next) {
            memcpy(&next, data, sizeof next);
            rk_pages_free((char *)data - HEADER_BYTES, HEADER_BYTES + size_class_bytes(c));
        }
        pool->idle[c] = NULL;
    }
}
