/* A packed batch from another rank: refused, or one that reads no byte that is not there. The second of a
 * message follows the first. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "batch/packed_batch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static uint64_t sum_bytes(const void *data, size_t n_bytes) {
    uint64_t sum = 0;
    for (size_t i = 0; data && i < n_bytes; i++) sum += ((const uint8_t *)data)[i];
    return sum;
}

static uint64_t read_all(const rk_batch *b) {
    size_t n = (size_t)b->n;
    uint64_t sum = sum_bytes(b->dense, n * (size_t)b->n_dense * 4) +
                   sum_bytes(b->labels, n * (size_t)b->n_tasks * 4) + sum_bytes(b->sample_weights, n * 4) +
                   sum_bytes(b->groups, n * 8);
    for (int32_t f = 0; f < b->n_features; f++) {
        const rk_ids *ids = &b->features[f];
        for (size_t i = 0; ids->offsets && i < n; i++)
            if (ids->offsets[i] < 0 || ids->offsets[i] > ids->offsets[i + 1]) abort();
        size_t n_ids = ids->offsets ? (size_t)ids->offsets[n] : n * (size_t)ids->ids_per_sample;
        sum += sum_bytes(ids->ids, n_ids * 8) + sum_bytes(ids->weights, n_ids * 4);
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    rk_unpacked_batch batch = {0};
    size_t n_used;
    char *own = malloc(n_bytes + 1); /* aligned, and its end is watched */
    if (!own) return 0;
    memcpy(own, data, n_bytes);
    uint64_t sum = 0;
    for (size_t at = 0; at < n_bytes && rk_batch_unpack(own + at, n_bytes - at, &batch, &n_used) == RK_OK;
         at += n_used)
        sum += read_all(&batch.batch);
    own[0] = (char)sum; /* so that the sums are taken */
    rk_unpacked_batch_release(&batch);
    free(own);
    return 0;
}
