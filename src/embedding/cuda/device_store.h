/* Where the rows are that a model on a GPU looks up: on that GPU, over the GPUs of ranks, or nowhere. It is
 * embedding/store.h for GPUs, for whole batches on streams. Its calls are those of device_tables.h, in the
 * same order. */
#ifndef RK_EMBEDDING_CUDA_DEVICE_STORE_H
#define RK_EMBEDDING_CUDA_DEVICE_STORE_H

#include "embedding/cuda/device_tables.h"

typedef struct rk_device_store rk_device_store;

typedef struct rk_device_store_ops {
    void (*free)(rk_device_store *store);
    rk_status (*dedup)(rk_device_store *store, rk_stream *upload, rk_stream *stream, int64_t n,
                       const rk_ids *ids, bool training);
    rk_status (*check_ids)(rk_device_store *store);
    rk_status (*fetch)(rk_device_store *store, rk_stream *stream); /* the oldest batch's rows, for lookup */
    rk_status (*lookup)(rk_device_store *store, rk_stream *stream, const rk_activation *activations);
    rk_status (*flag_not_finite)(rk_device_store *store, rk_stream *stream, const rk_activation *gradients,
                                 uint32_t *stop);
    rk_status (*check_gradients_finite)(rk_device_store *store);
    /* Before apply, over ranks: the sums of the gradients of this rank's rows. */
    rk_status (*sum)(rk_device_store *store, rk_stream *stream, const rk_activation *gradients);
    rk_status (*apply)(rk_device_store *store, rk_stream *stream, const rk_activation *gradients,
                       const uint32_t *stop);
    void (*end_batch)(rk_device_store *store, bool applied);
    rk_status (*flush)(rk_device_store *store);
    rk_status (*reload)(rk_device_store *store);
} rk_device_store_ops;

/* A store begins with its functions. */
struct rk_device_store {
    const rk_device_store_ops *ops;
};

/* Of a model without tables; free does nothing. */
rk_device_store *rk_device_store_none(void);
/* Of one rank. Takes the tables, whatever happens. */
rk_status rk_device_store_local(rk_device_tables *tables, rk_device_store **out);

#endif
