/* The stream's own time, as a dynamic table with a time to live knows it: the largest timestamp of its
 * batches. Rows keep the batch that used them last; marks tell which batches were how long ago. */
#ifndef RK_EMBEDDING_DYNAMIC_STREAM_CLOCK_H
#define RK_EMBEDDING_DYNAMIC_STREAM_CLOCK_H

#include <stdint.h>

#include "base/timestamp.h"

/* Marks are a 64th of the time to live apart, or more. */
enum { RK_MARKS_PER_TTL = 64, RK_MAX_CLOCK_MARKS = RK_MARKS_PER_TTL + 8 };

/* The last batch before which the clock had not passed this time. */
typedef struct rk_clock_mark {
    int64_t batch, time; /* batch 0: no mark */
} rk_clock_mark;

/* A checkpoint has it as it is, in a tensor of RK_STREAM_CLOCK_VALUES integers. Times in microseconds. */
#define RK_STREAM_CLOCK_TENSOR "stream_clock"
typedef struct rk_stream_clock {
    int64_t now;   /* RK_NO_TIMESTAMP: no batch had a timestamp */
    int64_t begin; /* of the batches after the last mark */
    rk_clock_mark marks[RK_MAX_CLOCK_MARKS];
} rk_stream_clock;
enum { RK_STREAM_CLOCK_VALUES = sizeof(rk_stream_clock) / sizeof(int64_t) };

void rk_stream_clock_reset(rk_stream_clock *clock);
/* Batch `batch`, numbers from 1 on, has this largest timestamp, or none. The clock is not turned back. */
void rk_stream_clock_advance(rk_stream_clock *clock, int64_t ttl, int64_t batch, int64_t timestamp);
/* The batch up to which all are `ttl` or longer ago; 0: none is. */
int64_t rk_stream_clock_expired_batch(const rk_stream_clock *clock, int64_t ttl);
/* What no clock of a table that has seen so many batches says is forgotten. */
void rk_stream_clock_check_loaded(rk_stream_clock *clock, int64_t n_batches);

#endif
