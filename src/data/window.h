/* Transformed rows, as columns: what is shuffled, kept between epochs, and cut into batches. */
#ifndef RK_DATA_WINDOW_H
#define RK_DATA_WINDOW_H

#include <reckon/batch.h>

#include "data/transforms.h"

/* Ids of one feature. */
typedef struct rk_window_ids {
    int64_t *offsets; /* [n_rows+1] */
    int64_t *ids;
    float *weights;   /* of weighted features, else NULL */
    size_t n_ids, offsets_capacity, ids_capacity, weights_capacity;
} rk_window_ids;

typedef struct rk_window {
    const rk_data_schema *schema;
    int64_t n_rows;
    float *dense, *labels, *sample_weights;
    int64_t *groups;
    size_t dense_capacity, labels_capacity, weights_capacity, groups_capacity;
    rk_window_ids *features; /* [schema->n_features] */
    bool has_labels, has_weights, has_groups;
    int64_t first_row;       /* of the epoch */
} rk_window;

rk_status rk_window_init(rk_window *window, const rk_data_schema *schema, bool has_labels, bool has_weights, bool has_groups);
void rk_window_release(rk_window *window);
void rk_window_clear(rk_window *window);
uint64_t rk_window_bytes(const rk_window *window);

/* Room for one more row at n_rows; ids are added by rk_window_add_id; rk_window_end_row keeps the row, rk_window_drop_row forgets it. */
rk_status rk_window_begin_row(rk_window *window);
rk_status rk_window_add_id(rk_window *window, int32_t feature, int64_t id, float weight);
void rk_window_end_row(rk_window *window);
void rk_window_drop_row(rk_window *window);

/* A batch with memory of its own. */
typedef struct rk_batch_memory {
    rk_window rows;
    rk_ids *ids; /* [n_features] */
    rk_batch batch;
} rk_batch_memory;
rk_status rk_batch_memory_init(rk_batch_memory *memory, const rk_window *like);
void rk_batch_memory_release(rk_batch_memory *memory);
/* Rows order[0..n) of the window (order NULL: first_row .. first_row+n-1) as a batch. */
rk_status rk_batch_gather(rk_batch_memory *memory, const rk_window *window, const uint32_t *order, int64_t first, int64_t n);

#endif
