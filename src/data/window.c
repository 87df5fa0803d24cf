#include "data/window.h"

#include <string.h>

#include "base/memory.h"

rk_status rk_window_init(rk_window *w, const rk_data_schema *schema, bool has_labels, bool has_weights, bool has_groups) {
    *w = (rk_window){.schema = schema, .has_labels = has_labels, .has_weights = has_weights, .has_groups = has_groups};
    RK_TRY(rk_alloc((size_t)schema->n_features, sizeof *w->features, &w->features));
    rk_status status = RK_OK;
    for (int32_t f = 0; status == RK_OK && f < schema->n_features; f++)
        status = rk_grow(&w->features[f].offsets, 0, &w->features[f].offsets_capacity, sizeof *w->features[f].offsets);
    if (status != RK_OK) {
        rk_window_release(w);
        return status;
    }
    rk_window_clear(w);
    return RK_OK;
}

void rk_window_release(rk_window *w) {
    for (int32_t f = 0; w->features && f < w->schema->n_features; f++) {
        rk_free(w->features[f].offsets);
        rk_free(w->features[f].ids);
        rk_free(w->features[f].weights);
    }
    rk_free(w->features);
    rk_free(w->dense);
    rk_free(w->labels);
    rk_free(w->sample_weights);
    rk_free(w->groups);
    *w = (rk_window){0};
}

void rk_window_clear(rk_window *w) {
    w->n_rows = 0;
    for (int32_t f = 0; f < w->schema->n_features; f++) {
        w->features[f].n_ids = 0;
        w->features[f].offsets[0] = 0;
    }
}

uint64_t rk_window_bytes(const rk_window *w) {
    uint64_t bytes = (w->dense_capacity + w->labels_capacity + w->weights_capacity) * sizeof(float) + w->groups_capacity * sizeof(int64_t);
    for (int32_t f = 0; f < w->schema->n_features; f++)
        bytes += (w->features[f].offsets_capacity + w->features[f].ids_capacity) * sizeof(int64_t) + w->features[f].weights_capacity * sizeof(float);
    return bytes;
}

/* Room for n elements. */
static rk_status reserve(void *array, size_t *capacity, size_t n, size_t bytes) {
    while (n > *capacity) RK_TRY(rk_grow(array, *capacity, capacity, bytes));
    return RK_OK;
}

rk_status rk_window_begin_row(rk_window *w) {
    size_t n = (size_t)w->n_rows + 1;
    const rk_data_schema *schema = w->schema;
    RK_TRY(reserve(&w->dense, &w->dense_capacity, n * (size_t)schema->n_dense, sizeof *w->dense));
    if (w->has_labels) RK_TRY(reserve(&w->labels, &w->labels_capacity, n * (size_t)schema->n_tasks, sizeof *w->labels));
    if (w->has_weights) RK_TRY(reserve(&w->sample_weights, &w->weights_capacity, n, sizeof *w->sample_weights));
    if (w->has_groups) RK_TRY(reserve(&w->groups, &w->groups_capacity, n, sizeof *w->groups));
    for (int32_t f = 0; f < schema->n_features; f++)
        RK_TRY(reserve(&w->features[f].offsets, &w->features[f].offsets_capacity, n + 1, sizeof *w->features[f].offsets));
    return RK_OK;
}

rk_status rk_window_add_id(rk_window *w, int32_t feature, int64_t id, float weight) {
    rk_window_ids *ids = &w->features[feature];
    RK_TRY(rk_grow(&ids->ids, ids->n_ids, &ids->ids_capacity, sizeof *ids->ids));
    ids->ids[ids->n_ids] = id;
    if (w->schema->features[feature].weighted) {
        RK_TRY(rk_grow(&ids->weights, ids->n_ids, &ids->weights_capacity, sizeof *ids->weights));
        ids->weights[ids->n_ids] = weight;
    }
    ids->n_ids++;
    return RK_OK;
}

void rk_window_end_row(rk_window *w) {
    w->n_rows++;
    for (int32_t f = 0; f < w->schema->n_features; f++) w->features[f].offsets[w->n_rows] = (int64_t)w->features[f].n_ids;
}

void rk_window_drop_row(rk_window *w) {
    for (int32_t f = 0; f < w->schema->n_features; f++) w->features[f].n_ids = (size_t)w->features[f].offsets[w->n_rows];
}

rk_status rk_batch_memory_init(rk_batch_memory *m, const rk_window *like) {
    *m = (rk_batch_memory){0};
    RK_TRY(rk_window_init(&m->rows, like->schema, like->has_labels, like->has_weights, like->has_groups));
    rk_status status = rk_alloc((size_t)like->schema->n_features, sizeof *m->ids, &m->ids);
    if (status != RK_OK) rk_batch_memory_release(m);
    return status;
}

void rk_batch_memory_release(rk_batch_memory *m) {
    if (m->rows.schema) rk_window_release(&m->rows);
    rk_free(m->ids);
    *m = (rk_batch_memory){0};
}

static rk_status gather_ids(rk_window_ids *to, const rk_window_ids *from, const uint32_t *order, int64_t first, int64_t n) {
    size_t total = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t row = order ? (int64_t)order[first + i] : first + i;
        total += (size_t)(from->offsets[row + 1] - from->offsets[row]);
    }
    RK_TRY(reserve(&to->offsets, &to->offsets_capacity, (size_t)n + 1, sizeof *to->offsets));
    RK_TRY(reserve(&to->ids, &to->ids_capacity, total, sizeof *to->ids));
    if (from->weights) RK_TRY(reserve(&to->weights, &to->weights_capacity, total, sizeof *to->weights));
    int64_t at = 0;
    to->offsets[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t row = order ? (int64_t)order[first + i] : first + i;
        for (int64_t k = from->offsets[row]; k < from->offsets[row + 1]; k++, at++) {
            to->ids[at] = from->ids[k];
            if (from->weights) to->weights[at] = from->weights[k];
        }
        to->offsets[i + 1] = at;
    }
    return RK_OK;
}

static void gather_floats(float *to, const float *from, const uint32_t *order, int64_t first, int64_t n, int64_t width) {
    for (int64_t i = 0; i < n; i++) {
        int64_t row = order ? (int64_t)order[first + i] : first + i;
        for (int64_t k = 0; k < width; k++) to[i * width + k] = from[row * width + k];
    }
}

rk_status rk_batch_gather(rk_batch_memory *m, const rk_window *w, const uint32_t *order, int64_t first, int64_t n) {
    const rk_data_schema *schema = w->schema;
    rk_window *to = &m->rows;
    RK_TRY(reserve(&to->dense, &to->dense_capacity, (size_t)(n * schema->n_dense), sizeof *to->dense));
    gather_floats(to->dense, w->dense, order, first, n, schema->n_dense);
    if (w->has_labels) {
        RK_TRY(reserve(&to->labels, &to->labels_capacity, (size_t)(n * schema->n_tasks), sizeof *to->labels));
        gather_floats(to->labels, w->labels, order, first, n, schema->n_tasks);
    }
    if (w->has_weights) {
        RK_TRY(reserve(&to->sample_weights, &to->weights_capacity, (size_t)n, sizeof *to->sample_weights));
        gather_floats(to->sample_weights, w->sample_weights, order, first, n, 1);
    }
    if (w->has_groups) {
        RK_TRY(reserve(&to->groups, &to->groups_capacity, (size_t)n, sizeof *to->groups));
        for (int64_t i = 0; i < n; i++) to->groups[i] = w->groups[order ? (int64_t)order[first + i] : first + i];
    }
    for (int32_t f = 0; f < schema->n_features; f++) {
        RK_TRY(gather_ids(&to->features[f], &w->features[f], order, first, n));
        m->ids[f] = (rk_ids){.offsets = to->features[f].offsets, .ids = to->features[f].ids, .weights = schema->features[f].weighted ? to->features[f].weights : NULL};
    }
    m->batch = (rk_batch){.n = n,
                          .n_dense = schema->n_dense,
                          .n_features = schema->n_features,
                          .n_tasks = schema->n_tasks,
                          .dense = to->dense,
                          .features = m->ids,
                          .labels = w->has_labels ? to->labels : NULL,
                          .sample_weights = w->has_weights ? to->sample_weights : NULL,
                          .groups = w->has_groups ? to->groups : NULL,
                          .first_row = w->first_row + first};
    return RK_OK;
}
