/* Batches out of windows: copied in a shuffled order, or as they stand. */
#include <string.h>

#include "base/memory.h"
#include "data/transform/shuffle_window.h"

rk_status rk_batch_memory_init(rk_batch_memory *m, const rk_window *like) {
    *m = (rk_batch_memory){0};
    RK_TRY(rk_window_init(&m->rows, like->schema, like->has));
    rk_status status = rk_alloc((size_t)like->schema->n_features, sizeof *m->ids, &m->ids);
    if (status != RK_OK) rk_batch_memory_release(m);
    return status;
}

void rk_batch_memory_release(rk_batch_memory *m) {
    if (m->rows.schema) rk_window_release(&m->rows);
    rk_free(m->ids);
    *m = (rk_batch_memory){0};
}

static void gather_floats(float *to, const float *from, const uint32_t *order, int64_t n, int64_t width) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < width; k++) to[i * width + k] = from[order[i] * width + k];
}

static rk_status gather_rows(rk_window *to, const rk_window *from, const uint32_t *order, int64_t n) {
    const rk_data_schema *schema = to->schema;
    RK_TRY(rk_window_reserve(to, n));
    gather_floats(to->dense, from->dense, order, n, schema->n_dense);
    if (to->has.labels) gather_floats(to->labels, from->labels, order, n, schema->n_tasks);
    if (to->has.weights) gather_floats(to->sample_weights, from->sample_weights, order, n, 1);
    for (int64_t i = 0; to->has.groups && i < n; i++) to->groups[i] = from->groups[order[i]];
    for (int64_t i = 0; to->has.timestamps && i < n; i++) to->timestamps[i] = from->timestamps[order[i]];
    for (int32_t f = 0; f < schema->n_features; f++) {
        rk_ids ids = rk_id_list_view(&from->features[f]);
        RK_TRY(rk_id_list_gather(&to->features[f], &ids, order, n));
    }
    to->n_rows = n;
    return RK_OK;
}

rk_status rk_batch_gather_window_rows(rk_batch_memory *m, const rk_window *w, const uint32_t *order,
                                      int64_t first, int64_t n) {
    rk_window_clear(&m->rows);
    RK_TRY(order ? gather_rows(&m->rows, w, order + first, n) : rk_window_append(&m->rows, w, first, n));
    RK_TRY(rk_batch_view_window(m, &m->rows, 0, n));
    m->batch.first_row = w->first_row + first;
    return RK_OK;
}

rk_status rk_batch_view_window(rk_batch_memory *m, const rk_window *w, int64_t first, int64_t n) {
    for (int32_t f = 0; f < w->schema->n_features; f++) {
        rk_ids all = rk_id_list_view(&w->features[f]);
        RK_TRY(rk_id_list_slice(&m->rows.features[f], &all, first, n, &m->ids[f]));
    }
    rk_batch columns = rk_window_view(w);
    m->batch = rk_batch_slice(&columns, first, n);
    m->batch.features = m->ids;
    m->timestamp = RK_NO_TIMESTAMP;
    for (int64_t i = first; w->has.timestamps && i < first + n; i++)
        m->timestamp = rk_later_timestamp(m->timestamp, w->timestamps[i]);
    return RK_OK;
}

rk_status rk_batch_take_window(rk_batch_memory *m, rk_window *w) {
    rk_window taken = *w;
    *w = m->rows;
    m->rows = taken;
    return rk_batch_view_window(m, &m->rows, 0, m->rows.n_rows);
}
