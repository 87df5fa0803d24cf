/* The Open Inference Protocol, version 2, by REST: tensors as JSON, or as bytes behind it (the binary tensor
 * data extension) (https://github.com/kserve/open-inference-protocol). A column of the model is a tensor [n]
 * or [n, 1], a list of k values a row one of [n, k]. */
#include <string.h>

#include "base/float16.h"
#include "base/memory.h"
#include "format/json_writer.h"
#include "server/request/inference_call.h"

/* Datatypes and what an element takes; of BYTES, its length does. */
static const struct datatype {
    const char *name;
    size_t n_bytes;
} datatypes[] = {{"BYTES", 0},  {"BOOL", 1},  {"UINT8", 1},  {"INT8", 1},  {"UINT16", 2},
                 {"INT16", 2},  {"FP16", 2},  {"UINT32", 4}, {"INT32", 4}, {"FP32", 4},
                 {"UINT64", 8}, {"INT64", 8}, {"FP64", 8}};
enum { BYTES, BOOL, UINT8, INT8, UINT16, INT16, FP16, UINT32, INT32, FP32, UINT64, INT64, FP64, N_DATATYPES };

typedef struct tensor {
    rk_span name, data; /* data: JSON, or nothing */
    int datatype;       /* -1: none was given */
    int n_dims;
    int64_t dims[2];
    int64_t n_binary_bytes; /* -1: data is JSON */
    bool is_read;           /* the data is */
} tensor;

/* Of a request, what its tensors are read with and into. */
typedef struct tensor_reader {
    rk_call *call;
    const rk_call_limits *limits;
    rk_request_rows *rows;
    size_t n_before;
} tensor_reader;

/* One that is asked for. */
typedef struct output {
    int32_t task;
    int as_bytes; /* -1: as the request says of all */
} output;

static rk_status read_shape(rk_json *json, tensor *t) {
    t->n_dims = 0;
    RK_TRY(rk_json_open_array(json));
    while (rk_json_next_item(json)) {
        if (t->n_dims == 2) return rk_json_error(json, "\"shape\": more than two dimensions");
        RK_TRY(rk_json_read_i64(json, &t->dims[t->n_dims]));
        if (t->dims[t->n_dims] < 0 || t->dims[t->n_dims] > INT32_MAX)
            return rk_json_error(json, "\"shape\": a dimension is out of range");
        t->n_dims++;
    }
    RK_TRY(json->status);
    return t->n_dims > 0 ? RK_OK : rk_json_error(json, "\"shape\": there is no dimension");
}

static rk_status read_datatype(rk_json *json, tensor *t) {
    rk_span name;
    RK_TRY(rk_json_read_text(json, &name));
    for (t->datatype = 0; t->datatype < N_DATATYPES; t->datatype++)
        if (rk_span_equal(name, datatypes[t->datatype].name)) return RK_OK;
    return rk_json_error(json, "\"datatype\" is none of the protocol's");
}

static rk_status read_parameters(rk_json *json, const char *wanted_number, int64_t *number,
                                 const char *wanted_bool, int *flag) {
    rk_span key;
    bool truth;
    RK_TRY(rk_json_open_object(json));
    while (rk_json_next_key(json, &key)) {
        if (number && rk_span_equal(key, wanted_number))
            RK_TRY(rk_json_read_i64(json, number));
        else if (flag && rk_span_equal(key, wanted_bool)) {
            RK_TRY(rk_json_read_bool(json, &truth));
            *flag = truth;
        } else
            RK_TRY(rk_json_skip_value(json, NULL));
    }
    return json->status;
}

/* An element's place in the tensor begins a row, and perhaps a list. */
static rk_status begin_row_of_tensor(const tensor *t, rk_request_column *column) {
    return rk_request_add_row(column, t->n_dims == 2 && t->dims[1] != 1);
}

static int64_t values_per_row(const tensor *t) {
    return t->n_dims == 2 ? t->dims[1] : 1;
}

/* A number as it stands, or of a tensor of floats the float that it is: 3.0 is 3, as in binary data. */
static rk_status add_json_number(rk_json *json, int datatype, rk_request_column *column) {
    rk_span text;
    float single;
    double number;
    RK_TRY(rk_json_read_number(json, &text));
    if (datatype == FP64 && rk_parse_f64(text, &number)) return rk_request_add_f64(column, number);
    if ((datatype == FP32 || datatype == FP16) && rk_parse_f32(text, &single))
        return rk_request_add_f32(column, datatype == FP32 ? single : rk_f16_to_f32(rk_f16_from_f32(single)));
    return rk_request_add_json_number(column, text);
}

static rk_status add_json_value(rk_json *json, rk_json_kind kind, int datatype, rk_request_column *column) {
    rk_span text;
    bool truth;
    if (kind == RK_JSON_NUMBER) return add_json_number(json, datatype, column);
    if (kind == RK_JSON_TEXT) {
        RK_TRY(rk_json_read_text(json, &text));
        return rk_request_add_text(column, text);
    }
    RK_TRY(rk_json_read_bool(json, &truth));
    return rk_request_add_i64(column, truth);
}

/* One number or text of JSON, flat or in lists. */
static rk_status read_json_values(rk_json *json, const tensor *t, rk_request_column *column) {
    int64_t n = t->dims[0] * values_per_row(t), done = 0, open = 0;
    RK_TRY(rk_json_open_array(json));
    while (true) {
        if (!rk_json_next_item(json)) {
            RK_TRY(json->status);
            if (open-- == 0) break;
            continue;
        }
        rk_json_kind kind;
        RK_TRY(rk_json_peek_kind(json, &kind));
        if (kind == RK_JSON_ARRAY) {
            RK_TRY(rk_json_open_array(json));
            open++;
            continue;
        }
        if (done == n) return rk_json_error(json, "\"data\" has more values than \"shape\" says");
        if (done % values_per_row(t) == 0) RK_TRY(begin_row_of_tensor(t, column));
        RK_TRY(add_json_value(json, kind, t->datatype, column));
        done++;
    }
    RK_FAIL_IF(done != n, RK_BAD_DATA, "input '%s': \"data\" has %lld values, \"shape\" says %lld",
               column->name, (long long)done, (long long)n);
    return RK_OK;
}

/* A little-endian element. */
static rk_status add_element(int datatype, const char *at, rk_request_column *column) {
    uint64_t word = 0;
    size_t n = datatypes[datatype].n_bytes;
    double real;
    float single;
    memcpy(&word, at, n);
    switch (datatype) {
        case FP16:
            return rk_request_add_f32(column, rk_f16_to_f32((uint16_t)word));
        case FP32:
            memcpy(&single, at, 4);
            return rk_request_add_f32(column, single);
        case FP64:
            memcpy(&real, at, 8);
            return rk_request_add_f64(column, real);
        case INT8:
        case INT16:
        case INT32:
            return rk_request_add_i64(column, (int64_t)(word << (64 - 8 * n)) >> (64 - 8 * n));
        case INT64:
            return rk_request_add_i64(column, (int64_t)word);
        default:
            return rk_request_add_u64(column, word);
    }
}

static rk_status read_binary_values(const tensor *t, rk_span bytes, rk_request_column *column) {
    int64_t n = t->dims[0] * values_per_row(t);
    const char *at = bytes.data, *end = at + bytes.n_bytes;
    for (int64_t done = 0; done < n; done++) {
        size_t left = (size_t)(end - at), size = datatypes[t->datatype].n_bytes;
        uint32_t length;
        RK_FAIL_IF(left < (t->datatype == BYTES ? sizeof length : size), RK_BAD_DATA,
                   "input '%s': its bytes end before its shape", column->name);
        if (done % values_per_row(t) == 0) RK_TRY(begin_row_of_tensor(t, column));
        if (t->datatype == BYTES) {
            memcpy(&length, at, sizeof length);
            at += sizeof length;
            RK_FAIL_IF(length > left - sizeof length, RK_BAD_DATA,
                       "input '%s': a text is longer than what is left", column->name);
            RK_TRY(rk_request_add_text(column, (rk_span){at, length}));
            at += length;
        } else {
            RK_TRY(add_element(t->datatype, at, column));
            at += size;
        }
    }
    RK_FAIL_IF(at != end, RK_BAD_DATA, "input '%s': bytes are left behind its last element", column->name);
    return RK_OK;
}

/* Rows without values have none to begin them. */
static rk_status add_empty_rows(const tensor *t, rk_request_column *column) {
    for (int64_t i = 0; values_per_row(t) == 0 && i < t->dims[0]; i++) RK_TRY(begin_row_of_tensor(t, column));
    return RK_OK;
}

/* *column: NULL: the model has none of the name. */
static rk_status begin_column_of_tensor(const tensor_reader *r, const tensor *t, rk_request_column **column) {
    rk_call *call = r->call;
    *column = rk_request_rows_find(r->rows, t->name);
    RK_FAIL_IF(t->dims[0] > r->limits->max_rows, RK_INVALID_ARGUMENT,
               "the request has %lld rows: %lld are allowed", (long long)t->dims[0],
               (long long)r->limits->max_rows);
    RK_FAIL_IF(call->n_rows >= 0 && t->dims[0] != call->n_rows, RK_BAD_DATA,
               "the inputs have %lld rows, and %lld", (long long)call->n_rows, (long long)t->dims[0]);
    call->n_rows = t->dims[0];
    if (!*column) return RK_OK;
    RK_FAIL_IF((*column)->n_rows > r->n_before, RK_BAD_DATA, "input '%s' is given twice", (*column)->name);
    RK_FAIL_IF(t->dims[0] * values_per_row(t) > (int64_t)call->body.n_bytes && values_per_row(t) > 0,
               RK_BAD_DATA, "input '%s': its shape is larger than the request", (*column)->name);
    return add_empty_rows(t, *column);
}

/* Where all is known of the tensor, as clients mostly have it, its data is read where it stands. */
static rk_status read_or_keep_data(const tensor_reader *r, rk_json *json, tensor *t) {
    rk_request_column *column;
    if (t->is_read) return rk_json_error(json, "\"data\" is given twice");
    if (!t->name.data || t->n_dims == 0 || t->datatype < 0 || t->n_binary_bytes >= 0 || t->data.data)
        return rk_json_skip_value(json, &t->data);
    RK_TRY(begin_column_of_tensor(r, t, &column));
    t->is_read = true;
    return column ? read_json_values(json, t, column) : rk_json_skip_value(json, NULL);
}

static rk_status read_tensor(const tensor_reader *r, rk_json *json, tensor *t) {
    rk_span key;
    *t = (tensor){.datatype = -1, .n_binary_bytes = -1};
    RK_TRY(rk_json_open_object(json));
    while (rk_json_next_key(json, &key)) {
        if (rk_span_equal(key, "name"))
            RK_TRY(rk_json_read_text(json, &t->name));
        else if (rk_span_equal(key, "shape"))
            RK_TRY(read_shape(json, t));
        else if (rk_span_equal(key, "datatype"))
            RK_TRY(read_datatype(json, t));
        else if (rk_span_equal(key, "data"))
            RK_TRY(read_or_keep_data(r, json, t));
        else if (rk_span_equal(key, "parameters"))
            RK_TRY(read_parameters(json, "binary_data_size", &t->n_binary_bytes, NULL, NULL));
        else
            RK_TRY(rk_json_skip_value(json, NULL));
    }
    RK_TRY(json->status);
    if (!t->name.data || t->n_dims == 0 || t->datatype < 0)
        return rk_json_error(json, "an input needs \"name\", \"shape\" and \"datatype\"");
    if ((t->is_read || t->data.data) == (t->n_binary_bytes >= 0))
        return rk_json_error(json, "an input needs either \"data\" or \"binary_data_size\"");
    return RK_OK;
}

static rk_status read_kept_data(const tensor_reader *r, const tensor *t, rk_span binary) {
    rk_request_column *column;
    RK_TRY(begin_column_of_tensor(r, t, &column));
    if (!column) return RK_OK;
    if (t->n_binary_bytes >= 0) return read_binary_values(t, binary, column);
    RK_AUTO(rk_json_release) rk_json json = {0};
    rk_json_begin_part(&json, r->call->body, t->data, r->limits->max_depth);
    return read_json_values(&json, t, column);
}

static rk_status read_inputs(const tensor_reader *r, rk_json *json, rk_span *binary) {
    RK_TRY(rk_json_open_array(json));
    while (rk_json_next_item(json)) {
        tensor t;
        RK_TRY(read_tensor(r, json, &t));
        rk_span bytes = {binary->data, t.n_binary_bytes < 0 ? 0 : (size_t)t.n_binary_bytes};
        if (bytes.n_bytes > binary->n_bytes)
            return rk_json_error(json, "\"binary_data_size\" is more than there is");
        binary->data += bytes.n_bytes;
        binary->n_bytes -= bytes.n_bytes;
        if (!t.is_read) RK_TRY(read_kept_data(r, &t, bytes));
    }
    return json->status;
}

static int32_t count_outputs(const rk_call *call) {
    return call->outputs.n_bytes ? (int32_t)(call->outputs.n_bytes / sizeof(output)) : call->version->n_tasks;
}

/* Of those that are asked for, or where none is named, of all tasks. */
static output find_output(const rk_call *call, int32_t i) {
    output o = {i, -1};
    if (call->outputs.n_bytes) memcpy(&o, call->outputs.data + (size_t)i * sizeof o, sizeof o);
    if (o.as_bytes < 0) o.as_bytes = call->wants_binary;
    return o;
}

static rk_status add_output(rk_call *call, rk_span name, int as_bytes) {
    const rk_served_version *v = call->version;
    output o = {0, as_bytes};
    while (o.task < v->n_tasks && !rk_span_equal(name, v->tasks[o.task].name)) o.task++;
    RK_FAIL_IF(o.task == v->n_tasks, RK_BAD_DATA, "\"outputs\": '%.*s' is no task of the model",
               (int)(name.n_bytes < 200 ? name.n_bytes : 200), name.data ? name.data : "");
    for (int32_t i = 0; call->outputs.n_bytes && i < count_outputs(call); i++)
        RK_FAIL_IF(find_output(call, i).task == o.task, RK_BAD_DATA, "\"outputs\": '%s' is asked for twice",
                   v->tasks[o.task].name);
    rk_buffer_append(&call->outputs, &o, sizeof o);
    return call->outputs.status;
}

static rk_status read_outputs(rk_call *call, rk_json *json) {
    rk_span key;
    RK_TRY(rk_json_open_array(json));
    while (rk_json_next_item(json)) {
        rk_span name = {0};
        int as_bytes = -1;
        RK_TRY(rk_json_open_object(json));
        while (rk_json_next_key(json, &key)) {
            if (rk_span_equal(key, "name"))
                RK_TRY(rk_json_read_text(json, &name));
            else if (rk_span_equal(key, "parameters"))
                RK_TRY(read_parameters(json, NULL, NULL, "binary_data", &as_bytes));
            else
                RK_TRY(rk_json_skip_value(json, NULL));
        }
        RK_TRY(json->status);
        RK_TRY(add_output(call, name, as_bytes));
    }
    return json->status;
}

rk_status rk_read_request_v2(rk_call *call, const rk_call_limits *limits, rk_json *json,
                             rk_request_rows *rows, size_t n_before) {
    size_t n_json = call->n_json_bytes < 0 ? call->body.n_bytes : (size_t)call->n_json_bytes;
    RK_FAIL_IF(n_json > call->body.n_bytes, RK_BAD_DATA,
               "Inference-Header-Content-Length is more than the body has");
    rk_span binary = {call->body.data + n_json, call->body.n_bytes - n_json}, key, id;
    call->n_rows = -1;
    int as_bytes = 0;
    rk_buffer_clear(&call->id);
    rk_buffer_clear(&call->outputs);
    rk_json_begin_document(json, (rk_span){call->body.data, n_json}, limits->max_depth);
    RK_TRY(rk_json_open_object(json));
    while (rk_json_next_key(json, &key)) {
        if (rk_span_equal(key, "inputs")) {
            if (call->n_rows >= 0) return rk_json_error(json, "\"inputs\" is given twice");
            RK_TRY(read_inputs(&(tensor_reader){call, limits, rows, n_before}, json, &binary));
        } else if (rk_span_equal(key, "outputs")) {
            RK_TRY(read_outputs(call, json));
        } else if (rk_span_equal(key, "id")) {
            RK_TRY(rk_json_read_text(json, &id));
            rk_buffer_clear(&call->id);
            rk_json_write_string_repaired(&call->id, id);
            RK_TRY(call->id.status);
        } else if (rk_span_equal(key, "parameters")) {
            RK_TRY(read_parameters(json, NULL, NULL, "binary_data_output", &as_bytes));
        } else {
            RK_TRY(rk_json_skip_value(json, NULL));
        }
    }
    RK_TRY(rk_json_check_end(json));
    call->wants_binary = as_bytes;
    RK_FAIL_IF(call->n_rows < 0, RK_BAD_DATA, "the request has no \"inputs\"");
    RK_FAIL_IF(binary.n_bytes > 0, RK_BAD_DATA, "bytes are left behind the last input");
    return RK_OK;
}

static void write_output(rk_call *call, const float *predictions, const output *o) {
    rk_buffer *out = &call->reply;
    const rk_served_version *v = call->version;
    const char *name = v->tasks[o->task].name;
    rk_buffer_append_text(out, "{\"name\": ");
    rk_json_write_string_repaired(out, (rk_span){name, strlen(name)});
    rk_buffer_printf(out, ", \"datatype\": \"FP32\", \"shape\": [%lld]", (long long)call->n_rows);
    if (o->as_bytes) {
        rk_buffer_printf(out, ", \"parameters\": {\"binary_data_size\": %lld}}", 4 * (long long)call->n_rows);
        return;
    }
    rk_buffer_append_text(out, ", \"data\": [");
    for (int64_t i = 0; i < call->n_rows; i++) {
        if (i) rk_buffer_append_text(out, ", ");
        rk_json_write_f32(out, predictions[i * v->n_tasks + o->task]);
    }
    rk_buffer_append_text(out, "]}");
}

void rk_write_reply_v2(rk_call *call, const float *predictions) {
    rk_buffer *out = &call->reply;
    const rk_served_version *v = call->version;
    bool any_bytes = false;
    rk_buffer_printf(out, "{\"model_name\": \"%s\", \"model_version\": \"%lld\"", v->entry->name,
                     (long long)v->number);
    if (call->id.n_bytes) rk_buffer_printf(out, ", \"id\": %s", call->id.data);
    rk_buffer_append_text(out, ", \"outputs\": [");
    for (int32_t i = 0; i < count_outputs(call); i++) {
        const output o = find_output(call, i);
        if (i) rk_buffer_append_text(out, ", ");
        write_output(call, predictions, &o);
        any_bytes |= o.as_bytes != 0;
    }
    rk_buffer_append_text(out, "]}");
    call->n_reply_json_bytes = any_bytes ? (int64_t)out->n_bytes : -1;
    for (int32_t i = 0; i < count_outputs(call); i++) {
        const output o = find_output(call, i);
        for (int64_t row = 0; o.as_bytes && row < call->n_rows; row++)
            rk_buffer_append(out, &predictions[row * v->n_tasks + o.task], sizeof *predictions);
    }
}
