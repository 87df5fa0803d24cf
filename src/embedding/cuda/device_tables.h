/* A collection's tables on a GPU: the same lookups and updates as the collection's own, for whole batches.
 *
 * The collection's host memory has a copy of rows and slots, called their home. create copies it to the
 * device; if the tables take more than `budget_bytes`, it pins the home and has a set-associative cache of
 * rows on the device instead (device_tables_budget.c). flush brings the home up to date. Until then the
 * collection itself must not be used, except for what is not a row: its config, its learning-rate factor,
 * its l2, its tables' steps.
 *
 * A batch: dedup; check_ids; prepare; lookup; in training flag_not_finite, apply; end_batch. Two batches may
 * be between dedup and end_batch. lookup, flag_not_finite and apply may be captured in a CUDA graph, which
 * then serves every batch: what changes is in device memory. Before that they must have been called once with
 * the same activations and gradients. */
#ifndef RK_EMBEDDING_CUDA_DEVICE_TABLES_H
#define RK_EMBEDDING_CUDA_DEVICE_TABLES_H

#include "cuda/device/device.h"
#include "embedding/local/collection.h"

typedef struct rk_device_tables rk_device_tables;

typedef struct rk_device_tables_options {
    int64_t max_batch;     /* samples */
    uint64_t budget_bytes; /* device memory for rows and slots; 0: as much as they take */
    bool of_ranks; /* tables may be parts of tables; gradients of several micro-batches are one sum all the
                      same */
    /* The collection has no rows: rk_device_tables_borrow_rows brings those of a batch, and their gradients
     * are summed, not applied. Weights are coefficients: with their combiner's divisor in them. */
    bool lent;
    bool wide_keys; /* sort by 64 bits where 32 would do; for tests */
} rk_device_tables_options;

/* Errors: RK_UNSUPPORTED (parts of tables), RK_NO_MEMORY, RK_INVALID_ARGUMENT (a budget in which the tables
 * cannot work, with the least one as a hint). */
rk_status rk_device_tables_create(rk_embeddings *embeddings, rk_device *device,
                                  const rk_device_tables_options *options, rk_device_tables **out);
void rk_device_tables_free(rk_device_tables *tables);
uint64_t rk_device_tables_bytes(const rk_device_tables *tables); /* all device memory */

/* Where rows are borrowed: those of the batches from the next one on, rows[t] [n_rows[t], dim] in device
 * memory, f32, in the collection's order. What was given to streams before is done. */
rk_status rk_device_tables_borrow_rows(rk_device_tables *tables, float *const *rows, const int64_t *n_rows);

/* Copies ids [n_features] of n samples, or of counts [n_features] (any host memory), to the device on
 * `upload`, then checks and sorts them on `stream`. With a stream of its own this runs beside the step
 * before. ids may be changed as soon as it returns. Waits until the batch before the last is done. */
rk_status rk_device_tables_dedup(rk_device_tables *tables, rk_stream *upload, rk_stream *stream, int64_t n,
                                 const int64_t *counts, const rk_ids *ids, bool training);

/* Undoes the last dedup, whose batch nothing else was launched for. */
void rk_device_tables_undo_dedup(rk_device_tables *tables);

/* The device's check of the oldest batch's ids: RK_OK, or the collection's error (RK_BAD_DATA with feature,
 * sample and id). Waits for the check alone. The ids of a refused batch look up and update nothing. */
rk_status rk_device_tables_check_ids(rk_device_tables *tables);

/* Makes the oldest batch of dedup the current one, in `stream`, with the numbers of this step (schedules,
 * factors). */
rk_status rk_device_tables_prepare_batch(rk_device_tables *tables, rk_stream *stream);
/* activations[f].data: device memory, stride in values; lengths NULL. data NULL: the feature is left out.
 * Where they are is kept on the device; rk_device_tables_unbind_activations, between batches, lets
 * go of it. */
rk_status rk_device_tables_lookup(rk_device_tables *tables, rk_stream *stream,
                                  const rk_activation *activations);
void rk_device_tables_unbind_activations(rk_device_tables *tables);
/* Sets RK_CUDA_STOP_ROWS in *stop (device memory) where a gradient [n_features] of a row that is trained is
 * not finite. */
rk_status rk_device_tables_flag_not_finite(rk_device_tables *tables, rk_stream *stream,
                                           const rk_activation *gradients, uint32_t *stop);
/* One optimizer step from gradients [n_features] (device memory). Nothing happens where *stop is not 0 then;
 * stop NULL: always. */
rk_status rk_device_tables_apply_gradients(rk_device_tables *tables, rk_stream *stream,
                                           const rk_activation *gradients, const uint32_t *stop);
/* Instead of apply, where rows are lent: each row that is trained becomes the sum of its gradients. */
rk_status rk_device_tables_sum_gradients(rk_device_tables *tables, rk_stream *stream,
                                         const rk_activation *gradients);
/* The oldest batch is no longer in flight; `applied`: the tables did a step. */
void rk_device_tables_end_batch(rk_device_tables *tables, bool applied);

/* Of the current batch, after flag_not_finite: RK_NOT_FINITE with feature and sample, or RK_OK. Waits. */
rk_status rk_device_tables_check_gradients_finite(rk_device_tables *tables);

/* Rows and slots back to the collection; no batch may be in flight. */
rk_status rk_device_tables_flush(rk_device_tables *tables);
/* After the collection's rows were changed (a checkpoint was read): to the device again. */
rk_status rk_device_tables_reload(rk_device_tables *tables);

#endif
