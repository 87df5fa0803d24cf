/* Batches out of windows: copied in a shuffled order, or as they stand. */
#include <string.h>

#include "base/memory.h"
#include "data/transform/window.h"

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

/* Rows that have k ids each. */
static void gather_alike(int64_t *to, const int64_t *from, const uint32_t *order, int64_t n, int64_t k) {
    if (k == 1) {
        for (int64_t i = 0; i < n; i++) to[i] = from[order[i]];
        return;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < k; j++) to[i * k + j] = from[order[i] * k + j];
}

static rk_status gather_differing(rk_window *w, int32_t feature, const rk_window_ids *from,
                                  const uint32_t *order, int64_t n) {
    rk_window_ids *to = &w->features[feature];
    size_t total = 0;
    for (int64_t i = 0; i < n; i++)
        total +=
            (size_t)(rk_window_ids_begin(from, order[i] + (int64_t)1) - rk_window_ids_begin(from, order[i]));
    RK_TRY(rk_window_reserve_ids(w, feature, total));
    for (int64_t i = 0; i < n; i++) {
        int64_t begin = rk_window_ids_begin(from, order[i]),
                n_ids = rk_window_ids_begin(from, order[i] + (int64_t)1) - begin;
        for (int64_t k = 0; k < n_ids; k++) to->ids[to->n_ids + (size_t)k] = from->ids[begin + k];
        for (int64_t k = 0; from->weights && k < n_ids; k++)
            to->weights[to->n_ids + (size_t)k] = from->weights[begin + k];
        to->n_ids += (size_t)n_ids;
        RK_TRY(rk_window_end_alike(to, 1, n_ids));
    }
    return RK_OK;
}

static rk_status gather_ids(rk_window *w, int32_t feature, const rk_window_ids *from, const uint32_t *order,
                            int64_t n) {
    if (from->per_row < 0 || from->weights) return gather_differing(w, feature, from, order, n);
    rk_window_ids *to = &w->features[feature];
    RK_TRY(rk_window_reserve_ids(w, feature, (size_t)(n * from->per_row)));
    gather_alike(to->ids, from->ids, order, n, from->per_row);
    to->n_ids = (size_t)(n * from->per_row);
    return rk_window_end_alike(to, n, from->per_row);
}

static void gather_floats(float *to, const float *from, const uint32_t *order, int64_t n, int64_t width) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < width; k++) to[i * width + k] = from[order[i] * width + k];
}

static rk_status gather_rows(rk_window *to, const rk_window *from, const uint32_t *order, int64_t n) {
    const rk_data_schema *schema = to->schema;
    RK_TRY(rk_window_reserve(to, n));
    gather_floats(to->dense, from->dense, order, n, schema->n_dense);
    if (to->has_labels) gather_floats(to->labels, from->labels, order, n, schema->n_tasks);
    if (to->has_weights) gather_floats(to->sample_weights, from->sample_weights, order, n, 1);
    for (int64_t i = 0; to->has_groups && i < n; i++) to->groups[i] = from->groups[order[i]];
    for (int32_t f = 0; f < schema->n_features; f++) RK_TRY(gather_ids(to, f, &from->features[f], order, n));
    to->n_rows = n;
    return RK_OK;
}

rk_status rk_batch_gather(rk_batch_memory *m, const rk_window *w, const uint32_t *order, int64_t first,
                          int64_t n) {
    rk_window_clear(&m->rows);
    RK_TRY(order ? gather_rows(&m->rows, w, order + first, n) : rk_window_append(&m->rows, w, first, n));
    RK_TRY(rk_batch_view(m, &m->rows, 0, n));
    m->batch.first_row = w->first_row + first;
    return RK_OK;
}

/* Offsets that begin at 0: the window's, or moved ones in the batch's memory. */
static rk_status view_offsets(rk_window_ids *own, const rk_window_ids *from, int64_t first, int64_t n,
                              const int64_t **out) {
    *out = from->offsets;
    if (first == 0) return RK_OK;
    own->n_rows = 0;
    RK_TRY(rk_window_end_differing(own, n, from->offsets + first));
    *out = own->offsets;
    return RK_OK;
}

rk_status rk_batch_view(rk_batch_memory *m, const rk_window *w, int64_t first, int64_t n) {
    const rk_data_schema *schema = w->schema;
    for (int32_t f = 0; f < schema->n_features; f++) {
        const rk_window_ids *from = &w->features[f];
        int64_t begin = rk_window_ids_begin(from, first);
        m->ids[f] = (rk_ids){.ids_per_sample = from->per_row, .ids = from->ids ? from->ids + begin : NULL};
        if (schema->features[f].weighted && from->weights) m->ids[f].weights = from->weights + begin;
        if (from->per_row < 0) RK_TRY(view_offsets(&m->rows.features[f], from, first, n, &m->ids[f].offsets));
        if (from->per_row < 0) m->ids[f].ids_per_sample = 0;
    }
    m->batch = (rk_batch){.n = n,
                          .n_dense = schema->n_dense,
                          .n_features = schema->n_features,
                          .n_tasks = schema->n_tasks,
                          .dense = schema->n_dense ? w->dense + first * schema->n_dense : NULL,
                          .features = m->ids,
                          .labels = w->has_labels && w->labels ? w->labels + first * schema->n_tasks : NULL,
                          .sample_weights = w->has_weights ? w->sample_weights + first : NULL,
                          .groups = w->has_groups ? w->groups + first : NULL,
                          .first_row = w->first_row + first};
    return RK_OK;
}

rk_status rk_batch_take(rk_batch_memory *m, rk_window *w) {
    rk_window taken = *w;
    *w = m->rows;
    m->rows = taken;
    return rk_batch_view(m, &m->rows, 0, m->rows.n_rows);
}
