/* Bodies of requests to a server: JSON of both protocols, and tensors behind it; of retrieval, and of
 * requests by hand. JSON that is taken is taken by jansson too. The first two bytes choose, also whether the
 * model reads one column or two. */
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "server/model_repository.h"
#include "server/request/inference_call.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static struct ArrowSchema children[] = {{.name = "a"}, {.name = "b"}, {.name = "label"}},
                          *pointers[] = {&children[0], &children[1], &children[2]};
static const struct ArrowSchema schema = {.n_children = 3, .children = pointers};
static rk_served_task tasks[] = {{"click", true}, {"rating", false}};
static rk_served_version version = {.tasks = tasks, .n_tasks = 2};

static volatile unsigned sum_of_all;

/* Every byte that the table shows is read. */
static void look_at(const struct ArrowArray *a, size_t n_rows) {
    unsigned sum = 0;
    for (int64_t c = 0; c < a->n_children; c++) {
        const struct ArrowArray *column = a->children[c];
        if (column->length != (int64_t)n_rows) abort();
        const struct ArrowArray *texts = column->n_children ? column->children[0] : column;
        const int64_t *numbers = texts->buffers[1];
        for (int64_t v = 0; v < texts->length && texts->n_buffers == 2; v++) sum += (unsigned)numbers[v];
        if (texts->n_buffers == 2) continue;
        const int32_t *ends = texts->buffers[1];
        const unsigned char *bytes = texts->buffers[2];
        for (int64_t v = 0; v < texts->length; v++) {
            if (ends[v] > ends[v + 1]) abort();
            for (int32_t i = ends[v]; i < ends[v + 1]; i++) sum += bytes[i];
        }
    }
    sum_of_all += sum;
}

static void look(rk_request_rows *rows, size_t n_rows) {
    rk_request_table table, context;
    if (rk_request_rows_to_arrow(rows, n_rows, &table, &context) != RK_OK) return;
    look_at(table.array, n_rows);
    if (context.schema) look_at(context.array, 1);
}

static void compare(rk_span text) {
    rk_json json = {0};
    rk_json_begin_document(&json, text, 16);
    if (rk_json_skip_value(&json, NULL) == RK_OK && rk_json_check_end(&json) == RK_OK) {
        json_error_t error;
        json_t *value = json_loadb(text.data, text.n_bytes,
                                   JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
        enum json_error_code code = value ? json_error_unknown : json_error_code(&error);
        /* Two things that jansson cannot hold. */
        if (!value && code != json_error_numeric_overflow && code != json_error_null_byte_in_key) abort();
        json_decref(value);
    }
    rk_json_release(&json);
}

static void read_by_hand(rk_span text) {
    const rk_repository nothing = {0};
    rk_buffer out = {0};
    int code = rk_repository_answer(&nothing, "/v2/repository/index", text, &out);
    if (code != 200 && code != 400) abort();
    rk_buffer_release(&out);
}

/* Without the items that a catalog would find. */
static void read_retrieve(rk_call *call, const rk_call_limits *limits, rk_json *json, rk_request_rows *rows) {
    rk_request_rows_begin(rows);
    if (rk_read_retrieve_request(call, limits, json, rows, 0) == RK_OK &&
        rk_request_rows_end(rows, (size_t)call->n_rows) == RK_OK)
        look(rows, (size_t)call->n_rows);
    rk_request_rows_truncate(rows, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    static const rk_call_limits limits = {.max_rows = 50, .max_depth = 8};
    if (n_bytes < 2) return 0;
    rk_json json = {0};
    rk_request_rows rows;
    rk_call call = {.kind = (rk_call_kind)(data[0] % 4), .version = &version};
    call.body = (rk_span){(const char *)data + 2, n_bytes - 2};
    call.n_json_bytes = data[0] & 4 ? (int64_t)call.body.n_bytes - data[1] : -1;
    if (call.n_json_bytes < -1) call.n_json_bytes = 0;
    compare(call.body);
    read_by_hand(call.body);
    if (rk_request_rows_init(&rows, &schema, data[1] & 2 ? 1 : 2) == RK_OK) {
        rk_request_column_set_reading(&rows.columns[0], (rk_column_reading)(data[1] >> 4 & 3));
        rk_request_column_set_reading(&rows.columns[1], (rk_column_reading)(data[1] >> 6 & 3));
        if (data[1] & 4) read_retrieve(&call, &limits, &json, &rows);
        rows.takes_context = data[1] & 1; /* of a request that nothing joins */
        for (size_t before = 0; before < 2 && !(before && rows.takes_context); before++) {
            size_t n = before ? rows.columns[0].n_rows : 0;
            if (rk_call_read_rows(&call, &limits, &json, &rows, n) == RK_OK)
                look(&rows, n + (size_t)call.n_rows);
            else
                rk_request_rows_truncate(&rows, n);
        }
    }
    rk_request_rows_release(&rows);
    rk_json_release(&json);
    rk_call_release(&call);
    return 0;
}
