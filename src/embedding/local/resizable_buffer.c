#include "embedding/local/resizable_buffer.h"

#include "base/memory.h"

rk_status rk_box_reserve(rk_box *box, size_t n_bytes) {
    if (n_bytes > box->capacity) {
        rk_pages_free(box->data, box->capacity);
        *box = (rk_box){0};
        RK_TRY(rk_pages_alloc(n_bytes + n_bytes / 4, &box->data));
        box->capacity = n_bytes + n_bytes / 4;
    }
    box->n_bytes = n_bytes;
    return RK_OK;
}

void rk_box_release(rk_box *box) {
    rk_pages_free(box->data, box->capacity);
    *box = (rk_box){0};
}
