/* What was asked and answered, for training and for looking at: records that a thread of its own writes, so
 * that no request ever waits for a disk. */
#ifndef RK_SERVER_REQUEST_LOG_H
#define RK_SERVER_REQUEST_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/text/text.h"

typedef struct rk_request_log rk_request_log;

typedef struct rk_request_log_options {
    const char *path;       /* of log_file.h; copied */
    double sampling_rate;   /* of requests, by their ids */
    int64_t max_bytes;      /* of a file */
    int64_t max_files;      /* of log_file.h */
    size_t max_queue_bytes; /* of records that wait to be written; what is beyond is dropped */
} rk_request_log_options;

typedef struct rk_request_log_counts {
    uint64_t n_written, n_dropped; /* records */
} rk_request_log_counts;

rk_status rk_request_log_open(const rk_request_log_options *options, rk_request_log **out);
/* When nobody appends any more: all that waits is written. NULL is fine. */
void rk_request_log_close(rk_request_log *log);

/* Whether a request is in the sample, which its id alone decides: servers that are asked under the same id
 * agree. NULL: none is. */
bool rk_request_log_is_sampled(const rk_request_log *log, rk_span request_id);
/* Takes the buffer's records; a buffer that failed counts as dropped, as what finds no room does. */
void rk_request_log_append(rk_request_log *log, rk_buffer *records, int64_t n_records);
size_t rk_request_log_max_bytes(const rk_request_log *log); /* of a request's records; more are dropped */
rk_request_log_counts rk_request_log_count(const rk_request_log *log);

#endif
