/* Transformed rows, as columns: what is shuffled, kept between epochs, and cut into batches. */
#ifndef RK_DATA_TRANSFORM_SHUFFLE_WINDOW_H
#define RK_DATA_TRANSFORM_SHUFFLE_WINDOW_H

#include <reckon/batch.h>

#include "base/timestamp.h"
#include "batch/ids.h"
#include "data/transform/transforms.h"

/* Which columns there are beside dense numbers and features. */
typedef struct rk_window_columns {
    bool labels, weights, groups, timestamps;
} rk_window_columns;

typedef struct rk_window {
    const rk_data_schema *schema;
    int64_t n_rows;
    float *dense, *labels, *sample_weights;
    int64_t *groups, *timestamps; /* timestamps: microseconds */
    size_t dense_capacity, labels_capacity, weights_capacity, groups_capacity, timestamps_capacity;
    rk_id_list *features; /* [schema->n_features] */
    rk_window_columns has;
    int64_t first_row; /* of the epoch */
} rk_window;

rk_status rk_window_init(rk_window *window, const rk_data_schema *schema, rk_window_columns has);
void rk_window_release(rk_window *window);
void rk_window_clear(rk_window *window);
uint64_t rk_window_bytes(const rk_window *window);

/* Room for n more rows, but for their ids. They are filled in feature by feature, and count once n_rows says
 * so. */
rk_status rk_window_reserve(rk_window *window, int64_t n);
/* Room for n more rows and their ids, if these are as those of another window's rows, so that it need not
 * grow step by step. */
rk_status rk_window_reserve_like(rk_window *window, const rk_window *like, int64_t n);
/* rk_id_list_reserve, with weights if the feature has them. */
rk_status rk_window_reserve_ids(rk_window *window, int32_t feature, size_t n);
rk_status rk_window_add_id(rk_window *window, int32_t feature, int64_t id, float weight);
/* Forget everything after row n_rows. */
void rk_window_truncate(rk_window *window);
/* Rows first .. first+n-1 of another window, or the first n of a batch, after those of this one. */
rk_status rk_window_append(rk_window *window, const rk_window *from, int64_t first, int64_t n);
/* View of all rows but the features, which are NULL. */
rk_batch rk_window_view(const rk_window *window);

/* A batch with memory of its own. */
typedef struct rk_batch_memory {
    rk_window rows;
    rk_ids *ids; /* [n_features] */
    rk_batch batch;
    int64_t timestamp; /* its largest, or RK_NO_TIMESTAMP */
} rk_batch_memory;
rk_status rk_batch_memory_init(rk_batch_memory *memory, const rk_window *like);
void rk_batch_memory_release(rk_batch_memory *memory);
/* A copy of rows order[first .. first+n) of the window (order NULL: first .. first+n-1) as a batch. */
rk_status rk_batch_gather_window_rows(rk_batch_memory *memory, const rk_window *window, const uint32_t *order,
                                      int64_t first, int64_t n);
/* Rows first .. first+n-1 as they stand in a window that outlives the batch. */
rk_status rk_batch_view_window(rk_batch_memory *memory, const rk_window *window, int64_t first, int64_t n);
/* The whole window, which gets the memory of the batch before. */
rk_status rk_batch_take_window(rk_batch_memory *memory, rk_window *window);

#endif
