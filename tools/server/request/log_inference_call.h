/* A call that was answered, as records of the request log: a tf.train.Example a row, with
 *   reckon/request_id, reckon/time_us (since 1970), reckon/model, reckon/version, reckon/row (of the
 * request), each column that the row has, as the texts that a CSV file would have, reckon/predictions/TASK;
 * or of :retrieve reckon/items and reckon/scores. */
#ifndef RK_SERVER_LOG_INFERENCE_CALL_H
#define RK_SERVER_LOG_INFERENCE_CALL_H

#include "format/protobuf/tfrecord.h"
#include "server/log/request_log.h"
#include "server/request/run_inference_call.h"

/* A worker's, which serves again. Zero-initialize. */
typedef struct rk_record_memory {
    rk_example_writer writer;
    rk_buffer example, records;
    rk_buffer texts; /* of a column's numbers, or a task's name, until they are in the record */
    rk_span *values;
    size_t values_capacity;
} rk_record_memory;

void rk_record_memory_release(rk_record_memory *memory);

/* The call's rows begin at `first` of rows; predictions are theirs, [call->n_rows, n_tasks], or, where the
 * call retrieves, NULL, and `found` are the items. Nothing happens if the log does not take the call. */
void rk_log_call(rk_request_log *log, const rk_call *call, const rk_request_rows *rows, size_t first,
                 const float *predictions, const rk_retrieval *found, rk_record_memory *memory);

#endif
