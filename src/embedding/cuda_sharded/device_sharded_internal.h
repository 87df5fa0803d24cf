/* Inside of a sharded collection on GPUs. */
#ifndef RK_EMBEDDING_CUDA_SHARDED_DEVICE_SHARDED_INTERNAL_H
#define RK_EMBEDDING_CUDA_SHARDED_DEVICE_SHARDED_INTERNAL_H

#include "cuda/tables/row_exchange.h"
#include "embedding/cuda_sharded/device_sharded_store.h"
#include "embedding/sharded/sharded_internal.h"

/* Device memory that grows. */
typedef struct rk_device_buffer {
    char *data;
    size_t n_bytes;
} rk_device_buffer;

typedef struct rk_device_sharded {
    rk_device_store as_store;
    rk_sharded *sharded;
    rk_device *device;
    rk_device_comm *comm;
    rk_stream *stream; /* of steps; NULL: none was taken yet */
    rk_device_tables *trainer_tables, *store;
    rk_device_buffer *values; /* [n_tables]: float [n, dim], a batch's different rows or combined bags; then
                                 their gradients */
    float **lent;             /* [n_tables]: what the trainer's tables have of those, and so many rows */
    int64_t *n_lent;
    rk_device_buffer
        *served; /* [store->n_features]: float [n, dim], rows on their way out, gradients on their way in */
    rk_activation *gradients_at, *served_at; /* [store->n_features]: where those are; of rows that the trainer
                                                has too, and does not ask for, served_at is NULL */
    rk_device_buffer *staged_here;     /* [n_streams, of this trainer] on the wire, where that is not as in
                                          values: rows in, gradients out */
    rk_device_buffer *staged_there;    /* [store->n_features] on the wire, where that is not as in served */
    rk_device_message *send, *receive; /* [store->n_features, or n_streams]: scratch */
    rk_ids *ids;                       /* [n_features]: of the trainer's tables, as they are looked up */
    int64_t **offsets;                 /* [n_features] of sequences' samples, */
    size_t *offsets_capacity;          /* so many */
} rk_device_sharded;

/* The store's (device_sharded_pipeline.c). */
rk_status rk_device_sharded_fetch_rows(rk_device_store *store, rk_stream *stream);
rk_status rk_device_sharded_apply_gradients(rk_device_store *store, rk_stream *stream,
                                            const rk_activation *gradients, const uint32_t *stop);
/* Makes buffers large enough for a batch whose ids have gone to their owners. */
rk_status rk_device_sharded_reserve_buffers(rk_device_sharded *ds, rk_in_flight_batch *j);

#endif
