/* Spans of time, for the Chrome trace or for sums. While it is off, recording costs a branch. Thread-safe. */
#ifndef RK_BASE_THREAD_TRACE_H
#define RK_BASE_THREAD_TRACE_H

#include <stdint.h>

#include "base/error.h"

rk_status rk_trace_start(const char *path); /* begin recording; the file is written at stop, atomically */
rk_status rk_trace_stop(void);              /* no error if off */
uint64_t rk_trace_begin(void);              /* 0 when off */
void rk_trace_end(uint64_t begin, const char *name); /* name: a string literal; a span on this thread */

/* Instead of a file, the time of each name, added up over threads: begin counting, and read. rk_trace_stop
 * ends it. */
rk_status rk_trace_start_summing(void);
double rk_trace_seconds(const char *name);

void rk_trace_name_thread(const char *name);

#endif
