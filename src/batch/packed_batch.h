/* Samples of a batch as bytes, for another rank with the same build: numbers unchanged, ids and offsets in
 * as few bytes as hold the largest. */
#ifndef RK_BATCH_PACKED_BATCH_H
#define RK_BATCH_PACKED_BATCH_H

#include <reckon/batch.h>

#include "base/buffer.h"

/* Which columns: dense numbers and features; labels and sample weights; groups. */
enum { RK_PACK_INPUT = 1, RK_PACK_LABELS = 2, RK_PACK_GROUPS = 4 };

/* Samples first .. first+n-1 after what the buffer holds, which must be a multiple of 8 bytes, as is what is
 * added. Errors are the buffer's. */
void rk_batch_pack(const rk_batch *batch, int64_t first, int64_t n, int columns, rk_buffer *out);

/* A batch of views: of the bytes, and of memory of its own for ids and offsets. */
typedef struct rk_unpacked_batch {
    rk_batch batch;
    rk_ids *features; /* [n_features] */
    struct rk_unpacked_ids {
        int64_t *values;
        size_t capacity;
    } * memory; /* [2 * n_features]: offsets, ids */
    int32_t n_features;
} rk_unpacked_batch;

/* What stands at data [n_bytes], 8-byte aligned, which must outlive the batch; *n_used bytes of it. `into` is
 * zeroed, or was used before. RK_BAD_DATA: it is cut short. */
rk_status rk_batch_unpack(const void *data, size_t n_bytes, rk_unpacked_batch *into, size_t *n_used);
void rk_unpacked_batch_release(rk_unpacked_batch *batch);

#endif
