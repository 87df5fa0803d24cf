#include "server/request/log_inference_call.h"

#include <string.h>

#include "base/memory.h"

void rk_record_memory_release(rk_record_memory *m) {
    rk_example_writer_release(&m->writer);
    rk_buffer_release(&m->example);
    rk_buffer_release(&m->records);
    rk_buffer_release(&m->texts);
    rk_free(m->values);
}

static void set_text_value(rk_record_memory *m, const char *name, rk_span text) {
    rk_example_add_bytes(&m->writer, name, &text, 1);
}

static void set_number_value(rk_record_memory *m, const char *name, int64_t number) {
    rk_example_add_i64(&m->writer, name, &number, 1);
}

/* Neither nulls nor texts of `data.missing` are values; a TFRecord's reader takes all texts for values. A
 * column that a request must have is in each record, so that the first one of a file names it. */
static rk_status add_column(rk_record_memory *m, const rk_served_version *version, const rk_request_column *c,
                            size_t row) {
    if (c->is_context) row = 0; /* of a request alone, which stands beside each of its rows */
    size_t n = 0, most = (size_t)(c->first[row + 1] - c->first[row]);
    RK_TRY(rk_reserve(&m->values, &m->values_capacity, most, sizeof *m->values));
    rk_buffer_clear(&m->texts);
    char *rooms = rk_buffer_extend(&m->texts, most * RK_NUMBER_BYTES);
    RK_TRY(m->texts.status);
    for (int32_t v = c->first[row]; v < c->first[row + 1]; v++) {
        if (c->nulls[v]) continue;
        rk_span text = rk_request_get_value(c, v, rooms + n * RK_NUMBER_BYTES);
        if (!rk_session_is_missing(version->sessions[0], text.data, text.n_bytes)) m->values[n++] = text;
    }
    if (n > 0 || c->required) rk_example_add_bytes(&m->writer, c->name, m->values, n);
    return RK_OK;
}

static rk_status add_predictions(rk_record_memory *m, const rk_served_version *v, const float *predictions) {
    for (int32_t t = 0; t < v->n_tasks; t++) {
        rk_buffer_clear(&m->texts);
        rk_buffer_printf(&m->texts, "reckon/predictions/%s", v->tasks[t].name);
        RK_TRY(m->texts.status);
        rk_example_add_f32(&m->writer, m->texts.data, &predictions[t], 1);
    }
    return RK_OK;
}

/* The items' names, of which numbers are written into `texts`. */
static rk_status add_retrieved_items(rk_record_memory *m, const rk_served_version *v,
                                     const rk_retrieval *found, int64_t row) {
    const int64_t *items = found->items + row * found->k;
    int64_t n = 0;
    enum { ROOM = 24 };
    while (n < found->k && items[n] >= 0) n++;
    RK_TRY(rk_reserve(&m->values, &m->values_capacity, (size_t)n, sizeof *m->values));
    rk_buffer_clear(&m->texts);
    char *rooms = rk_buffer_extend(&m->texts, (size_t)n * ROOM);
    RK_TRY(m->texts.status);
    for (int64_t i = 0; i < n; i++)
        m->values[i].data =
            rk_item_catalog_name(v->catalog, items[i], rooms + i * ROOM, &m->values[i].n_bytes);
    rk_example_add_bytes(&m->writer, "reckon/items", m->values, (size_t)n);
    rk_example_add_f32(&m->writer, "reckon/scores", found->scores + row * found->k, (size_t)n);
    return RK_OK;
}

static rk_status add_values_of_row(rk_record_memory *m, const rk_call *call, const rk_request_rows *rows,
                                   size_t first, int64_t row, const float *predictions,
                                   const rk_retrieval *found) {
    const rk_served_version *v = call->version;
    const char *model = v->entry->name;
    set_text_value(m, "reckon/request_id", call->request_id);
    set_number_value(m, "reckon/time_us", (int64_t)(call->received * 1e6));
    set_text_value(m, "reckon/model", (rk_span){model, strlen(model)});
    set_number_value(m, "reckon/version", v->number);
    set_number_value(m, "reckon/row", row);
    for (size_t c = 0; c < rows->n_columns; c++)
        RK_TRY(add_column(m, v, &rows->columns[c], first + (size_t)row));
    return predictions ? add_predictions(m, v, predictions + row * v->n_tasks)
                       : add_retrieved_items(m, v, found, row);
}

static rk_status make_record(rk_record_memory *m, const rk_call *call, const rk_request_rows *rows,
                             size_t first, int64_t row, const float *predictions, const rk_retrieval *found) {
    rk_status added = add_values_of_row(m, call, rows, first, row, predictions, found);
    rk_buffer_clear(&m->example);
    RK_TRY(rk_example_finish(&m->writer, &m->example)); /* which begins anew after an error too */
    RK_TRY(added);
    RK_FAIL_IF(m->example.n_bytes > RK_TFRECORD_MAX_BYTES, RK_UNSUPPORTED, "the row is larger than a record");
    rk_tfrecord_write(m->example.data, m->example.n_bytes, &m->records);
    return m->records.status;
}

void rk_log_call(rk_request_log *log, const rk_call *call, const rk_request_rows *rows, size_t first,
                 const float *predictions, const rk_retrieval *found, rk_record_memory *m) {
    if (!rk_request_log_is_sampled(log, call->request_id) || call->n_rows == 0) return;
    size_t most = rk_request_log_max_bytes(log);
    for (int64_t row = 0; row < call->n_rows && m->records.status == RK_OK && m->records.n_bytes <= most;
         row++) {
        rk_status status = make_record(m, call, rows, first, row, predictions, found);
        if (status != RK_OK) m->records.status = status;
    }
    rk_request_log_append(log, &m->records, call->n_rows);
}
