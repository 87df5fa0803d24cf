/* TensorFlow Serving's REST API: predict with `instances` or `inputs`, classify and regress with `examples`;
 * a `context` stands beside each row in all three (https://www.tensorflow.org/tfx/serving/api_rest). The
 * signature's name chooses a task of several. */
#include <string.h>

#include "base/memory.h"
#include "format/json_writer.h"
#include "server/request/inference_call.h"

/* An object of columns, as row `row`. Names that the model does not have are passed over, and with `absent`
 * those that the row has. */
static rk_status read_row(rk_json *json, rk_request_rows *rows, size_t row, bool absent) {
    rk_span key;
    RK_TRY(rk_json_open_object(json));
    while (rk_json_next_key(json, &key)) {
        rk_request_column *column = rk_request_rows_find(rows, key);
        if (column && !(absent && column->n_rows > row))
            RK_TRY(rk_request_read_value(json, column, row));
        else
            RK_TRY(rk_json_skip_value(json, NULL));
    }
    return json->status;
}

/* The only column that a request must have; NULL: there are several. */
static rk_request_column *find_only_column(rk_request_rows *rows) {
    rk_request_column *only = NULL;
    for (size_t c = 0; c < rows->n_columns; c++) {
        if (rows->columns[c].required && only) return NULL;
        if (rows->columns[c].required) only = &rows->columns[c];
    }
    return only;
}

/* A row, or, of a model that reads one column, its value. */
static rk_status read_instance(rk_json *json, rk_request_rows *rows, size_t row) {
    rk_json_kind kind;
    rk_request_column *only = NULL;
    RK_TRY(rk_json_peek_kind(json, &kind));
    if (kind != RK_JSON_OBJECT) only = find_only_column(rows);
    return only ? rk_request_read_value(json, only, row) : read_row(json, rows, row, false);
}

static rk_status check_row_count(int64_t n, const rk_call_limits *limits) {
    RK_FAIL_IF(n >= limits->max_rows, RK_INVALID_ARGUMENT, "the request has more than %lld rows",
               (long long)limits->max_rows);
    return RK_OK;
}

rk_status rk_read_request_rows(rk_call *call, const rk_call_limits *limits, rk_json *json, rk_span context,
                               rk_request_rows *rows, size_t n_before) {
    RK_AUTO(rk_json_release) rk_json shared = {0};
    call->n_rows = 0;
    RK_TRY(rk_json_open_array(json));
    while (rk_json_next_item(json)) {
        RK_TRY(check_row_count(call->n_rows, limits));
        size_t row = n_before + (size_t)call->n_rows++;
        RK_TRY(read_instance(json, rows, row));
        if (!context.data) continue;
        rk_json_begin_part(&shared, call->body, context, limits->max_depth);
        RK_TRY(read_row(&shared, rows, row, true));
    }
    return json->status;
}

/* A list of a value a row; how many. */
static rk_status read_column(const rk_call_limits *limits, rk_json *json, rk_request_column *column,
                             size_t n_before, int64_t *n) {
    *n = 0;
    RK_TRY(rk_json_open_array(json));
    while (rk_json_next_item(json)) {
        RK_TRY(check_row_count(*n, limits));
        RK_TRY(rk_request_read_value(json, column, n_before + (size_t)(*n)++));
    }
    return json->status;
}

/* {"column": [a value a row]}, all of one length; of a model that reads one column, its list alone. */
static rk_status read_columns(rk_call *call, const rk_call_limits *limits, rk_json *json,
                              rk_request_rows *rows, size_t n_before) {
    rk_span key;
    rk_json_kind kind;
    RK_TRY(rk_json_peek_kind(json, &kind));
    rk_request_column *only = kind == RK_JSON_ARRAY ? find_only_column(rows) : NULL;
    if (only) return read_column(limits, json, only, n_before, &call->n_rows);
    call->n_rows = -1;
    RK_TRY(rk_json_open_object(json));
    while (rk_json_next_key(json, &key)) {
        rk_request_column *column = rk_request_rows_find(rows, key);
        int64_t n = 0;
        if (!column) {
            RK_TRY(rk_json_skip_value(json, NULL));
            continue;
        }
        RK_TRY(read_column(limits, json, column, n_before, &n));
        RK_FAIL_IF(call->n_rows >= 0 && n != call->n_rows, RK_BAD_DATA,
                   "column '%s' has %lld values, those before it %lld", column->name, (long long)n,
                   (long long)call->n_rows);
        call->n_rows = n;
    }
    RK_TRY(json->status);
    RK_FAIL_IF(call->n_rows < 0, RK_BAD_DATA, "\"inputs\" has no column of the model's");
    return RK_OK;
}

/* A context is written out in each row, or its ids are: a short request of many rows must not fill the
 * memory. */
enum { MAX_CONTEXT_BYTES = 1 << 27 };

/* Where some rows have one of the context's columns and others may not, they are read again, each with the
 * context beside it. */
rk_status rk_copy_context_to_rows(rk_call *call, const rk_call_limits *limits, rk_span context, rk_span given,
                                  rk_request_rows *rows, size_t n_before) {
    RK_AUTO(rk_json_release) rk_json json = {0};
    rk_span key;
    RK_FAIL_IF(context.n_bytes > 0 && call->n_rows > MAX_CONTEXT_BYTES / (int64_t)context.n_bytes,
               RK_INVALID_ARGUMENT, "\"context\" has %lld bytes, too many for %lld rows",
               (long long)context.n_bytes, (long long)call->n_rows);
    rk_json_begin_part(&json, call->body, context, limits->max_depth);
    RK_TRY(rk_json_open_object(&json));
    while (rk_json_next_key(&json, &key)) {
        rk_request_column *column = rk_request_rows_find(rows, key);
        if (column && column->given && call->form == RK_FORM_ROWS) {
            rk_request_rows_truncate(rows, n_before);
            rk_json_begin_part(&json, call->body, given, limits->max_depth);
            return rk_read_request_rows(call, limits, &json, context, rows, n_before);
        }
        if (column && !column->given && call->n_rows > 0) {
            RK_TRY(rk_request_read_value(&json, column, n_before));
            column->is_context = rows->takes_context;
            if (!rows->takes_context)
                RK_TRY(rk_request_repeat_row(column, n_before, n_before + (size_t)call->n_rows));
        } else {
            RK_TRY(rk_json_skip_value(&json, NULL));
        }
    }
    return json.status;
}

static rk_status choose_task(rk_call *call, rk_span name) {
    const rk_served_version *v = call->version;
    call->task = 0;
    call->has_one_task = name.n_bytes > 0 && !rk_span_equal(name, "serving_default");
    if (!call->has_one_task) return RK_OK;
    for (; call->task < v->n_tasks; call->task++)
        if (rk_span_equal(name, v->tasks[call->task].name)) return RK_OK;
    return rk_error(RK_BAD_DATA, "\"signature_name\": '%.*s' is no task of the model",
                    (int)(name.n_bytes < 200 ? name.n_bytes : 200), name.data);
}

static rk_status check_task(const rk_call *call) {
    const rk_served_task *task = &call->version->tasks[call->task];
    RK_FAIL_IF(call->kind == RK_CALL_CLASSIFY && !task->binary, RK_BAD_DATA,
               "task '%s' has no classes\nhint: ask for :regress or :predict", task->name);
    return RK_OK;
}

rk_status rk_read_request_v1(rk_call *call, const rk_call_limits *limits, rk_json *json,
                             rk_request_rows *rows, size_t n_before) {
    bool predict = call->kind == RK_CALL_PREDICT, found = false;
    const char *of_rows = predict ? "instances" : "examples";
    rk_span key, context = {0}, given = {0}, text;
    call->task = 0;
    call->has_one_task = false;
    rk_json_begin_document(json, call->body, limits->max_depth);
    RK_TRY(rk_json_open_object(json));
    while (rk_json_next_key(json, &key)) {
        bool are_rows = rk_span_equal(key, of_rows), are_columns = predict && rk_span_equal(key, "inputs");
        if (are_rows || are_columns) {
            if (found) return rk_json_error(json, "rows are given twice");
            found = true;
            call->form = are_rows ? RK_FORM_ROWS : RK_FORM_COLUMNS;
            given.data = json->at;
            RK_TRY(are_rows ? rk_read_request_rows(call, limits, json, (rk_span){0}, rows, n_before)
                            : read_columns(call, limits, json, rows, n_before));
            given.n_bytes = (size_t)(json->at - given.data);
        } else if (rk_span_equal(key, "context")) {
            if (context.data) return rk_json_error(json, "\"context\" is given twice");
            RK_TRY(rk_json_skip_value(json, &context));
        } else if (rk_span_equal(key, "signature_name")) {
            RK_TRY(rk_json_read_text(json, &text));
            RK_TRY(choose_task(call, text));
        } else {
            return rk_json_error(json, "the request has a key that is not known");
        }
    }
    RK_TRY(rk_json_check_end(json));
    RK_FAIL_IF(!found, RK_BAD_DATA, "the request has no \"%s\"%s", of_rows,
               predict ? " and no \"inputs\"" : "");
    RK_TRY(check_task(call));
    return context.data ? rk_copy_context_to_rows(call, limits, context, given, rows, n_before) : RK_OK;
}

/* A number a row of one task, in brackets. */
static void write_predictions_of_task(rk_buffer *out, const float *predictions, int64_t n, int32_t n_tasks) {
    rk_buffer_append_text(out, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i) rk_buffer_append_text(out, ", ");
        rk_json_write_f32(out, predictions[i * n_tasks]);
    }
    rk_buffer_append_text(out, "]");
}

static void write_task_name_as_key(rk_buffer *out, const rk_call *call, int32_t task) {
    const char *name = call->version->tasks[task].name;
    if (task) rk_buffer_append_text(out, ", ");
    rk_json_write_string_repaired(out, (rk_span){name, strlen(name)});
    rk_buffer_append_text(out, ": ");
}

static void write_rows_as_objects(const rk_call *call, rk_buffer *out, const float *predictions,
                                  int32_t n_tasks) {
    rk_buffer_append_text(out, "[");
    for (int64_t i = 0; i < call->n_rows; i++) {
        rk_buffer_append_text(out, i ? ", {" : "{");
        for (int32_t t = 0; t < n_tasks; t++) {
            write_task_name_as_key(out, call, t);
            rk_json_write_f32(out, predictions[i * n_tasks + t]);
        }
        rk_buffer_append_text(out, "}");
    }
    rk_buffer_append_text(out, "]");
}

static void write_class_scores(const rk_call *call, rk_buffer *out, const float *predictions,
                               int32_t n_tasks) {
    rk_buffer_append_text(out, "[");
    for (int64_t i = 0; i < call->n_rows; i++) {
        float p = predictions[i * n_tasks + call->task];
        rk_buffer_append_text(out, i ? ", [[\"0\", " : "[[\"0\", ");
        rk_json_write_f32(out, 1 - p);
        rk_buffer_append_text(out, "], [\"1\", ");
        rk_json_write_f32(out, p);
        rk_buffer_append_text(out, "]]");
    }
    rk_buffer_append_text(out, "]");
}

void rk_write_reply_v1(rk_call *call, const float *predictions) {
    rk_buffer *out = &call->reply;
    int32_t n_tasks = call->version->n_tasks;
    bool predict = call->kind == RK_CALL_PREDICT, rows = call->form == RK_FORM_ROWS;
    rk_buffer_append_text(out, !predict ? "{\"result\": " : rows ? "{\"predictions\": " : "{\"outputs\": ");
    if (call->kind == RK_CALL_CLASSIFY) {
        write_class_scores(call, out, predictions, n_tasks);
    } else if (!predict || n_tasks == 1 || call->has_one_task) {
        write_predictions_of_task(out, predictions + call->task, call->n_rows, n_tasks);
    } else if (rows) {
        write_rows_as_objects(call, out, predictions, n_tasks);
    } else {
        rk_buffer_append_text(out, "{");
        for (int32_t t = 0; t < n_tasks; t++) {
            write_task_name_as_key(out, call, t);
            write_predictions_of_task(out, predictions + t, call->n_rows, n_tasks);
        }
        rk_buffer_append_text(out, "}");
    }
    rk_buffer_append_text(out, "}\n");
}
