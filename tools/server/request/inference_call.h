/* A request for predictions, from its body to its answer, whoever brought it. */
#ifndef RK_SERVER_INFERENCE_CALL_H
#define RK_SERVER_INFERENCE_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/text/text.h"
#include "server/request/json_reader.h"
#include "server/served_model.h"

typedef enum rk_call_kind {
    RK_CALL_PREDICT,
    RK_CALL_CLASSIFY,
    RK_CALL_REGRESS,
    RK_CALL_INFER,
    RK_CALL_RETRIEVE
} rk_call_kind;

/* How the rows came, and so how the answer looks. */
typedef enum rk_call_form { RK_FORM_ROWS, RK_FORM_COLUMNS } rk_call_form;

typedef struct rk_call {
    rk_call_kind kind;
    rk_served_version *version;
    rk_span body;
    int64_t n_json_bytes; /* of infer: those of the body that are JSON; the others are tensors. -1: all */
    double deadline;      /* rk_clock_seconds */
    double received;      /* seconds since 1970 */
    rk_span request_id;   /* of the client, or made for it */
    bool alone;           /* set by the batcher: no other is joined with it */
    /* Of the body: */
    rk_call_form form;
    int32_t task;      /* of classify and regress */
    bool has_one_task; /* of predict: the answer is that task's alone */
    int64_t n_rows;
    int64_t k;               /* of retrieve: items of a user, at most */
    rk_span exclude, filter; /* of retrieve: JSON, lists of items that are not found, or alone are */
    bool with_known;         /* of retrieve: what the data has of a user is found too */
    rk_buffer id;            /* of infer: JSON, or nothing */
    bool wants_binary;       /* of infer: outputs as binary tensors, where they do not say it themselves */
    rk_buffer outputs;       /* of infer: those that are asked for; nothing: all */
    /* The answer: */
    int code; /* of HTTP; 0: none yet */
    rk_buffer reply;
    int64_t n_reply_json_bytes; /* -1: all */
    /* Called once, on a worker's thread, after which the call is the caller's again. */
    void (*done)(struct rk_call *call);
    struct rk_call *next;
} rk_call;

typedef struct rk_call_limits {
    int64_t max_rows;
    int max_depth;
} rk_call_limits;

static inline rk_call_limits rk_call_limits_of(const rk_limits_section *limits) {
    return (rk_call_limits){.max_rows = limits->max_rows, .max_depth = (int)limits->max_depth};
}

/* What reading and answering have made, not the version. */
void rk_call_release(rk_call *call);

/* The body's rows behind the first `n_before` of `rows`. json: memory that serves again. Errors: RK_BAD_DATA,
 * or RK_INVALID_ARGUMENT for too many rows; rows are then undefined, and cut by the caller. */
rk_status rk_call_read_rows(rk_call *call, const rk_call_limits *limits, rk_json *json, rk_request_rows *rows,
                            size_t n_before);
/* predictions [n_rows, n_tasks]. */
void rk_call_write_reply(rk_call *call, const float *predictions);
/* Whether all of the answer could be written; else it is a 503, as after any lack of memory. */
void rk_call_check_reply(rk_call *call);
/* {"error": ...}, for a status of the library by its code. */
void rk_call_fail(rk_call *call, rk_status status);
void rk_call_fail_with(rk_call *call, int code, const char *message);

/* The value that stands next, as row `row` of a column: null, a number, a text, a bool, {"b64": ...}, or a
 * list. */
rk_status rk_request_read_value(rk_json *json, rk_request_column *column, size_t row);
/* The same of a value that is no list, whose kind was peeked at, as its text; of null: {0}. */
rk_status rk_request_read_scalar(rk_json *json, rk_json_kind kind, rk_span *text);
/* An array of objects, a row each; call->n_rows: how many. context: an object whose columns stand in for
 * those that a row does not have, or nothing. */
rk_status rk_read_request_rows(rk_call *call, const rk_call_limits *limits, rk_json *json, rk_span context,
                               rk_request_rows *rows, size_t n_before);
/* An object of columns that the rows have not given, the same in each of them. given: the rows, as JSON. */
rk_status rk_copy_context_to_rows(rk_call *call, const rk_call_limits *limits, rk_span context, rk_span given,
                                  rk_request_rows *rows, size_t n_before);
/* The parts of TensorFlow Serving's REST API, and of the Open Inference Protocol. */
rk_status rk_read_request_v1(rk_call *call, const rk_call_limits *limits, rk_json *json,
                             rk_request_rows *rows, size_t n_before);
void rk_write_reply_v1(rk_call *call, const float *predictions);
rk_status rk_read_retrieve_request(rk_call *call, const rk_call_limits *limits, rk_json *json,
                                   rk_request_rows *rows, size_t n_before);
rk_status rk_read_request_v2(rk_call *call, const rk_call_limits *limits, rk_json *json,
                             rk_request_rows *rows, size_t n_before);
void rk_write_reply_v2(rk_call *call, const float *predictions);

/* With as many digits as the same f32 is read from; not finite: null. */
void rk_json_write_f32(rk_buffer *out, float value);

#endif
