/* Memory that grows to the largest parcel seen and stays, in whole pages; what was in it goes when it grows. */
#ifndef RK_EMBEDDING_LOCAL_RESIZABLE_BUFFER_H
#define RK_EMBEDDING_LOCAL_RESIZABLE_BUFFER_H

#include <stddef.h>

#include <reckon/status.h>

typedef struct rk_box {
    void *data;
    size_t n_bytes, capacity;
} rk_box;
rk_status rk_box_reserve(rk_box *box, size_t n_bytes);
void rk_box_release(rk_box *box);

#endif
