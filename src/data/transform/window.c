#include "data/transform/window.h"

#include <string.h>

#include "base/memory.h"

rk_status rk_window_init(rk_window *w, const rk_data_schema *schema, bool has_labels, bool has_weights,
                         bool has_groups) {
    rk_window made = {
        .schema = schema, .has_labels = has_labels, .has_weights = has_weights, .has_groups = has_groups};
    RK_TRY(rk_alloc((size_t)schema->n_features, sizeof *made.features, &made.features));
    *w = made;
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
    rk_window_cut(w);
}

uint64_t rk_window_bytes(const rk_window *w) {
    uint64_t bytes = (w->dense_capacity + w->labels_capacity + w->weights_capacity) * sizeof(float) +
                     w->groups_capacity * sizeof(int64_t);
    for (int32_t f = 0; f < w->schema->n_features; f++)
        bytes += (w->features[f].offsets_capacity + w->features[f].ids_capacity) * sizeof(int64_t) +
                 w->features[f].weights_capacity * sizeof(float);
    return bytes;
}

/* Room for n elements. */
static inline rk_status reserve(void *array, size_t *capacity, size_t n, size_t bytes) {
    if (n <= *capacity) return RK_OK;
    size_t wanted = *capacity + *capacity / 2 > n ? *capacity + *capacity / 2 : n;
    RK_TRY(rk_realloc(wanted, bytes, array));
    *capacity = wanted;
    return RK_OK;
}

rk_status rk_window_reserve(rk_window *w, int64_t n_more) {
    size_t n = (size_t)(w->n_rows + n_more);
    const rk_data_schema *schema = w->schema;
    RK_TRY(reserve(&w->dense, &w->dense_capacity, n * (size_t)schema->n_dense, sizeof *w->dense));
    if (w->has_labels)
        RK_TRY(reserve(&w->labels, &w->labels_capacity, n * (size_t)schema->n_tasks, sizeof *w->labels));
    if (w->has_weights)
        RK_TRY(reserve(&w->sample_weights, &w->weights_capacity, n, sizeof *w->sample_weights));
    if (w->has_groups) RK_TRY(reserve(&w->groups, &w->groups_capacity, n, sizeof *w->groups));
    return RK_OK;
}

rk_status rk_window_reserve_ids(rk_window *w, int32_t feature, size_t n) {
    rk_window_ids *ids = &w->features[feature];
    RK_TRY(reserve(&ids->ids, &ids->ids_capacity, ids->n_ids + n, sizeof *ids->ids));
    if (!w->schema->features[feature].weighted) return RK_OK;
    return reserve(&ids->weights, &ids->weights_capacity, ids->n_ids + n, sizeof *ids->weights);
}

rk_status rk_window_reserve_like(rk_window *w, const rk_window *like, int64_t n) {
    RK_TRY(rk_window_reserve(w, n));
    for (int32_t f = 0; f < w->schema->n_features; f++)
        if (like->features[f].per_row >= 0)
            RK_TRY(rk_window_reserve_ids(w, f, (size_t)(n * like->features[f].per_row)));
    return RK_OK;
}

rk_status rk_window_add_id(rk_window *w, int32_t feature, int64_t id, float weight) {
    rk_window_ids *ids = &w->features[feature];
    RK_TRY(rk_window_reserve_ids(w, feature, 1));
    ids->ids[ids->n_ids] = id;
    if (w->schema->features[feature].weighted) ids->weights[ids->n_ids] = weight;
    ids->n_ids++;
    return RK_OK;
}

/* Offsets of the rows so far, and room for those of n more. */
static rk_status need_offsets(rk_window_ids *ids, int64_t n) {
    RK_TRY(
        reserve(&ids->offsets, &ids->offsets_capacity, (size_t)(ids->n_rows + n) + 1, sizeof *ids->offsets));
    for (int64_t i = 0; ids->per_row >= 0 && i <= ids->n_rows; i++) ids->offsets[i] = i * ids->per_row;
    ids->per_row = -1;
    return RK_OK;
}

rk_status rk_window_end_alike(rk_window_ids *ids, int64_t n, int64_t k) {
    if (ids->n_rows == 0) ids->per_row = k;
    if (ids->per_row != k) {
        RK_TRY(need_offsets(ids, n));
        for (int64_t i = ids->n_rows; i < ids->n_rows + n; i++) ids->offsets[i + 1] = ids->offsets[i] + k;
    }
    ids->n_rows += n;
    return RK_OK;
}

rk_status rk_window_end_differing(rk_window_ids *ids, int64_t n, const int64_t *offsets) {
    if (ids->n_rows == 0) ids->per_row = 0;
    RK_TRY(need_offsets(ids, n));
    int64_t *to = ids->offsets + ids->n_rows, shift = to[0] - offsets[0];
    for (int64_t i = 1; i <= n; i++) to[i] = offsets[i] + shift;
    ids->n_rows += n;
    return RK_OK;
}

void rk_window_cut(rk_window *w) {
    for (int32_t f = 0; f < w->schema->n_features; f++) {
        rk_window_ids *ids = &w->features[f];
        if (ids->n_rows > w->n_rows) ids->n_rows = w->n_rows;
        ids->n_ids = w->n_rows ? (size_t)rk_window_ids_begin(ids, w->n_rows) : 0;
    }
}

static rk_status append_ids(rk_window *w, int32_t feature, const rk_window_ids *from, int64_t first,
                            int64_t n) {
    rk_window_ids *to = &w->features[feature];
    int64_t begin = rk_window_ids_begin(from, first), n_ids = rk_window_ids_begin(from, first + n) - begin;
    RK_TRY(rk_window_reserve_ids(w, feature, (size_t)n_ids));
    if (n_ids) memcpy(to->ids + to->n_ids, from->ids + begin, (size_t)n_ids * sizeof *to->ids);
    if (n_ids && from->weights)
        memcpy(to->weights + to->n_ids, from->weights + begin, (size_t)n_ids * sizeof *to->weights);
    to->n_ids += (size_t)n_ids;
    return from->per_row >= 0 ? rk_window_end_alike(to, n, from->per_row)
                              : rk_window_end_differing(to, n, from->offsets + first);
}

static void copy_floats(float *to, int64_t to_row, const float *from, int64_t from_row, int64_t n,
                        int64_t width) {
    if (n > 0 && width > 0)
        memcpy(to + to_row * width, from + from_row * width, (size_t)(n * width) * sizeof *to);
}

rk_status rk_window_append(rk_window *w, const rk_window *from, int64_t first, int64_t n) {
    const rk_data_schema *schema = w->schema;
    RK_TRY(rk_window_reserve(w, n));
    copy_floats(w->dense, w->n_rows, from->dense, first, n, schema->n_dense);
    if (w->has_labels) copy_floats(w->labels, w->n_rows, from->labels, first, n, schema->n_tasks);
    if (w->has_weights) copy_floats(w->sample_weights, w->n_rows, from->sample_weights, first, n, 1);
    if (w->has_groups && n)
        memcpy(w->groups + w->n_rows, from->groups + first, (size_t)n * sizeof *w->groups);
    for (int32_t f = 0; f < schema->n_features; f++) RK_TRY(append_ids(w, f, &from->features[f], first, n));
    w->n_rows += n;
    return RK_OK;
}
