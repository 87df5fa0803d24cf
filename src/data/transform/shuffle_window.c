#include "data/transform/shuffle_window.h"

#include <string.h>

#include "base/memory.h"

rk_status rk_window_init(rk_window *w, const rk_data_schema *schema, rk_window_columns has) {
    rk_window made = {.schema = schema, .has = has};
    RK_TRY(rk_alloc((size_t)schema->n_features, sizeof *made.features, &made.features));
    *w = made;
    return RK_OK;
}

void rk_window_release(rk_window *w) {
    for (int32_t f = 0; w->features && f < w->schema->n_features; f++) rk_id_list_release(&w->features[f]);
    RK_FREE_ALL(w->features, w->dense, w->labels, w->sample_weights, w->groups, w->timestamps);
    *w = (rk_window){0};
}

void rk_window_clear(rk_window *w) {
    w->n_rows = 0;
    rk_window_truncate(w);
}

uint64_t rk_window_bytes(const rk_window *w) {
    uint64_t bytes = (w->dense_capacity + w->labels_capacity + w->weights_capacity) * sizeof(float) +
                     (w->groups_capacity + w->timestamps_capacity) * sizeof(int64_t);
    for (int32_t f = 0; f < w->schema->n_features; f++)
        bytes += (w->features[f].offsets_capacity + w->features[f].ids_capacity) * sizeof(int64_t) +
                 w->features[f].weights_capacity * sizeof(float);
    return bytes;
}

rk_status rk_window_reserve(rk_window *w, int64_t n_more) {
    size_t n = (size_t)(w->n_rows + n_more);
    const rk_data_schema *schema = w->schema;
    RK_TRY(rk_reserve(&w->dense, &w->dense_capacity, n * (size_t)schema->n_dense, sizeof *w->dense));
    if (w->has.labels)
        RK_TRY(rk_reserve(&w->labels, &w->labels_capacity, n * (size_t)schema->n_tasks, sizeof *w->labels));
    if (w->has.weights)
        RK_TRY(rk_reserve(&w->sample_weights, &w->weights_capacity, n, sizeof *w->sample_weights));
    if (w->has.groups) RK_TRY(rk_reserve(&w->groups, &w->groups_capacity, n, sizeof *w->groups));
    if (w->has.timestamps)
        RK_TRY(rk_reserve(&w->timestamps, &w->timestamps_capacity, n, sizeof *w->timestamps));
    return RK_OK;
}

rk_status rk_window_reserve_ids(rk_window *w, int32_t feature, size_t n) {
    return rk_id_list_reserve(&w->features[feature], n, w->schema->features[feature].weighted);
}

rk_status rk_window_reserve_like(rk_window *w, const rk_window *like, int64_t n) {
    RK_TRY(rk_window_reserve(w, n));
    for (int32_t f = 0; f < w->schema->n_features; f++)
        if (like->features[f].ids_per_sample >= 0)
            RK_TRY(rk_window_reserve_ids(w, f, (size_t)(n * like->features[f].ids_per_sample)));
    return RK_OK;
}

rk_status rk_window_add_id(rk_window *w, int32_t feature, int64_t id, float weight) {
    rk_id_list *ids = &w->features[feature];
    RK_TRY(rk_window_reserve_ids(w, feature, 1));
    ids->ids[ids->n_ids] = id;
    if (w->schema->features[feature].weighted) ids->weights[ids->n_ids] = weight;
    ids->n_ids++;
    return RK_OK;
}

void rk_window_truncate(rk_window *w) {
    for (int32_t f = 0; f < w->schema->n_features; f++) rk_id_list_truncate(&w->features[f], w->n_rows);
}

rk_batch rk_window_view(const rk_window *w) {
    return (rk_batch){.n = w->n_rows,
                      .n_dense = w->schema->n_dense,
                      .n_features = w->schema->n_features,
                      .n_tasks = w->schema->n_tasks,
                      .dense = w->schema->n_dense ? w->dense : NULL,
                      .labels = w->has.labels ? w->labels : NULL,
                      .sample_weights = w->has.weights ? w->sample_weights : NULL,
                      .groups = w->has.groups ? w->groups : NULL,
                      .first_row = w->first_row};
}

static void copy_floats(float *to, int64_t to_row, const float *from, int64_t n, int64_t width) {
    if (n > 0 && width > 0) memcpy(to + to_row * width, from, (size_t)(n * width) * sizeof *to);
}

/* All but the features, and room for as many rows. */
static rk_status append_columns(rk_window *w, rk_batch from) {
    RK_TRY(rk_window_reserve(w, from.n));
    copy_floats(w->dense, w->n_rows, from.dense, from.n, from.n_dense);
    if (w->has.labels) copy_floats(w->labels, w->n_rows, from.labels, from.n, from.n_tasks);
    if (w->has.weights) copy_floats(w->sample_weights, w->n_rows, from.sample_weights, from.n, 1);
    if (w->has.groups && from.n)
        memcpy(w->groups + w->n_rows, from.groups, (size_t)from.n * sizeof *w->groups);
    return RK_OK;
}

rk_status rk_window_append(rk_window *w, const rk_window *from, int64_t first, int64_t n) {
    rk_batch columns = rk_window_view(from);
    RK_TRY(append_columns(w, rk_batch_slice(&columns, first, n)));
    if (w->has.timestamps && n)
        memcpy(w->timestamps + w->n_rows, from->timestamps + first, (size_t)n * sizeof *w->timestamps);
    for (int32_t f = 0; f < w->schema->n_features; f++) {
        rk_ids ids = rk_id_list_view(&from->features[f]);
        RK_TRY(rk_id_list_append(&w->features[f], &ids, first, n));
    }
    w->n_rows += n;
    return RK_OK;
}
