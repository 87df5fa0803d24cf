#include "server/request/inference_call.h"

#include <math.h>
#include <string.h>

#include "format/json_writer.h"

rk_status rk_request_read_scalar(rk_json *json, rk_json_kind kind, rk_span *text) {
    bool truth;
    *text = (rk_span){0};
    switch (kind) {
        case RK_JSON_NULL:
            return rk_json_skip_value(json, NULL);
        case RK_JSON_NUMBER:
            return rk_json_read_number(json, text);
        case RK_JSON_TEXT:
            return rk_json_read_text(json, text);
        case RK_JSON_OBJECT:
            return rk_json_read_base64(json, text);
        case RK_JSON_ARRAY:
            return rk_json_error(json, "a list stands in a list of values");
        default:
            RK_TRY(rk_json_read_bool(json, &truth));
            *text = (rk_span){truth ? "1" : "0", 1};
            return RK_OK;
    }
}

static rk_status read_scalar_as_value(rk_json *json, rk_json_kind kind, rk_request_column *column) {
    rk_span text;
    RK_TRY(rk_request_read_scalar(json, kind, &text));
    return kind == RK_JSON_NULL                             ? rk_request_add_null(column)
           : kind == RK_JSON_TEXT || kind == RK_JSON_OBJECT ? rk_request_add_text(column, text)
                                                            : rk_request_add_json_number(column, text);
}

static rk_status read_list_as_row(rk_json *json, rk_request_column *column) {
    RK_TRY(rk_request_add_row(column, true));
    RK_TRY(rk_json_open_array(json));
    while (rk_json_next_item(json)) {
        rk_json_kind kind;
        RK_TRY(rk_json_peek_kind(json, &kind));
        RK_TRY(read_scalar_as_value(json, kind, column));
    }
    return json->status;
}

rk_status rk_request_read_value(rk_json *json, rk_request_column *column, size_t row) {
    rk_json_kind kind;
    if (column->n_rows > row) return rk_json_error(json, "a column is given twice");
    RK_TRY(rk_request_fill_missing(column, row));
    RK_TRY(rk_json_peek_kind(json, &kind));
    if (kind == RK_JSON_ARRAY) return read_list_as_row(json, column);
    RK_TRY(rk_request_add_row(column, false));
    return read_scalar_as_value(json, kind, column);
}

static rk_status check_call_suits_model(const rk_call *call) {
    bool retrieves = call->version->catalog != NULL;
    RK_FAIL_IF(retrieves && call->kind != RK_CALL_RETRIEVE, RK_BAD_DATA,
               "the model is a two_tower, which finds items for users and does not score rows\nhint: ask for "
               ":retrieve");
    RK_FAIL_IF(!retrieves && call->kind == RK_CALL_RETRIEVE, RK_BAD_DATA,
               "the model scores rows, and only a two_tower retrieves items\nhint: ask for :predict");
    return RK_OK;
}

typedef rk_status (*reader)(rk_call *, const rk_call_limits *, rk_json *, rk_request_rows *, size_t);
static reader reader_of_kind(rk_call_kind kind) {
    return kind == RK_CALL_INFER      ? rk_read_request_v2
           : kind == RK_CALL_RETRIEVE ? rk_read_retrieve_request
                                      : rk_read_request_v1;
}

void rk_call_release(rk_call *call) {
    rk_buffer_release(&call->id);
    rk_buffer_release(&call->outputs);
    rk_buffer_release(&call->reply);
}

rk_status rk_call_read_rows(rk_call *call, const rk_call_limits *limits, rk_json *json, rk_request_rows *rows,
                            size_t n_before) {
    RK_TRY(check_call_suits_model(call));
    rk_request_rows_begin(rows);
    RK_TRY(reader_of_kind(call->kind)(call, limits, json, rows, n_before));
    RK_FAIL_IF(call->n_rows > limits->max_rows, RK_INVALID_ARGUMENT,
               "the request has %lld rows: %lld are allowed", (long long)call->n_rows,
               (long long)limits->max_rows);
    return rk_request_rows_end(rows, n_before + (size_t)call->n_rows);
}

void rk_call_write_reply(rk_call *call, const float *predictions) {
    call->code = 200;
    (call->kind == RK_CALL_INFER ? rk_write_reply_v2 : rk_write_reply_v1)(call, predictions);
    rk_call_check_reply(call);
}

void rk_call_check_reply(rk_call *call) {
    if (call->reply.status != RK_OK) rk_call_fail_with(call, 503, "memory ran out");
}

void rk_call_fail_with(rk_call *call, int code, const char *message) {
    rk_buffer_clear(&call->reply);
    call->reply.status = RK_OK;
    call->code = code;
    call->n_reply_json_bytes = -1;
    rk_buffer_append_text(&call->reply, "{\"error\": ");
    rk_json_write_string_repaired(&call->reply, (rk_span){message, strlen(message)});
    rk_buffer_append_text(&call->reply, "}\n");
}

void rk_call_fail(rk_call *call, rk_status status) {
    int code = status == RK_BAD_DATA || status == RK_NOT_FINITE     ? 400
               : status == RK_INVALID_ARGUMENT                      ? 413
               : status == RK_INTERRUPTED                           ? 504
               : status == RK_NO_MEMORY || status == RK_UNAVAILABLE ? 503
                                                                    : 500;
    rk_call_fail_with(call, code, rk_last_error());
}

void rk_json_write_f32(rk_buffer *out, float value) {
    char scratch[RK_NUMBER_BYTES];
    rk_span text = isfinite(value) ? rk_format_f32(value, scratch) : (rk_span){"null", 4};
    rk_buffer_append(out, text.data, text.n_bytes);
}
