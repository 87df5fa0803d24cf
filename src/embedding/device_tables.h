/* A collection's tables on a GPU: the same lookups and updates as the collection's own, for whole batches, on one stream.
 *
 * The collection's rows and slots in the host's memory stay the tables' home: create copies them to the device, or, where `budget_bytes` is less than they take, keeps
 * the home pinned and a set-associative cache of rows on the device. settle brings the home up to date; until then the collection itself must not be used, but
 * for what is no row (its config, its learning-rate factor, its tables' steps). */
#ifndef RK_EMBEDDING_DEVICE_TABLES_H
#define RK_EMBEDDING_DEVICE_TABLES_H

#include "cuda/device.h"
#include "embedding/collection.h"

typedef struct rk_device_tables rk_device_tables;

typedef struct rk_device_tables_options {
    int64_t max_batch;      /* samples */
    uint64_t budget_bytes;  /* device memory for rows and slots; 0: as much as they take */
} rk_device_tables_options;

rk_status rk_device_tables_create(rk_embeddings *embeddings, rk_device *device, const rk_device_tables_options *options, rk_device_tables **out);
void rk_device_tables_free(rk_device_tables *tables);
uint64_t rk_device_tables_bytes(const rk_device_tables *tables); /* of device memory */

/* Brings ids [n_features] of n samples (host memory, any) to the device on `upload`, and, once they are there, checks and sorts them on `stream`. Two batches may be under way:
 * the ids of the next may be routed while this one's are in use. ids may be changed as soon as it returns. */
rk_status rk_device_tables_route(rk_device_tables *tables, rk_stream *upload, rk_stream *stream, int64_t n, const rk_ids *ids, bool training);

/* activations[f].data: device memory, stride in values; lengths NULL. Of the oldest routed batch. */
void rk_device_tables_look_up(rk_device_tables *tables, rk_stream *stream, const rk_activation *activations);
/* One optimizer step from gradients [n_features] (device memory) of the oldest routed batch, and no longer under way. */
rk_status rk_device_tables_apply(rk_device_tables *tables, rk_stream *stream, const rk_activation *gradients);
/* After prediction: the oldest routed batch is no longer under way. */
void rk_device_tables_drop(rk_device_tables *tables);

/* What the device has found wrong with the oldest routed batch's ids, as the collection would have told it (RK_BAD_DATA, with feature, sample and id), or RK_OK. Waits for
 * the check alone. Nothing is looked up or updated by ids that are no rows. */
rk_status rk_device_tables_check(rk_device_tables *tables);

/* Rows and slots back to the collection. */
rk_status rk_device_tables_settle(rk_device_tables *tables);
/* After the collection's rows were changed (a checkpoint was read): to the device again. */
rk_status rk_device_tables_refresh(rk_device_tables *tables);

#endif
