#include "base/thread/trace.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/buffer.h"
#include "base/thread/clock.h"
#include "base/file/file.h"
#include "base/memory.h"

typedef struct span {
    const char *name;
    uint64_t begin_us, end_us;
    int thread;
} span;

enum { MAX_NAMED_THREADS = 64 };

static struct {
    pthread_mutex_t mutex; /* guards all but `on` */
    atomic_bool on;
    char *path;
    span *spans; /* [n] */
    size_t n, capacity;
    uint64_t start_us;
    int n_threads;
    const char *thread_names[MAX_NAMED_THREADS];
    rk_status status; /* of recording: memory may run out */
} trace = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int thread_number; /* from 1; 0: not yet given */

static int get_thread_number(void) { /* under the mutex */
    if (!thread_number) thread_number = ++trace.n_threads;
    return thread_number;
}

/* path NULL: nothing is written at the end. */
static rk_status start_trace(const char *path) {
    pthread_mutex_lock(&trace.mutex);
    rk_status status = RK_OK;
    if (atomic_load(&trace.on))
        status = rk_error(RK_INVALID_ARGUMENT, "a trace is already being recorded");
    else if (path)
        status = rk_strdup(path, &trace.path);
    if (status == RK_OK) {
        trace.n = 0;
        trace.status = RK_OK;
        trace.start_us = rk_clock_us();
        atomic_store(&trace.on, true);
    }
    pthread_mutex_unlock(&trace.mutex);
    return status;
}

rk_status rk_trace_start(const char *path) {
    return start_trace(path);
}

rk_status rk_trace_start_summing(void) {
    return start_trace(NULL);
}

double rk_trace_seconds(const char *name) {
    uint64_t sum = 0;
    pthread_mutex_lock(&trace.mutex);
    for (size_t i = 0; i < trace.n; i++)
        if (strcmp(trace.spans[i].name, name) == 0) sum += trace.spans[i].end_us - trace.spans[i].begin_us;
    pthread_mutex_unlock(&trace.mutex);
    return (double)sum * 1e-6;
}

uint64_t rk_trace_begin(void) {
    return atomic_load_explicit(&trace.on, memory_order_relaxed) ? rk_clock_us() : 0;
}

void rk_trace_end(uint64_t begin, const char *name) {
    if (!begin) return;
    uint64_t end = rk_clock_us();
    pthread_mutex_lock(&trace.mutex);
    if (atomic_load(&trace.on) && trace.status == RK_OK) {
        trace.status = rk_reserve_one_more(&trace.spans, trace.n, &trace.capacity, sizeof *trace.spans);
        if (trace.status == RK_OK) trace.spans[trace.n++] = (span){name, begin, end, get_thread_number()};
    }
    pthread_mutex_unlock(&trace.mutex);
}

void rk_trace_name_thread(const char *name) {
    pthread_mutex_lock(&trace.mutex);
    int thread = get_thread_number();
    if (thread < MAX_NAMED_THREADS) trace.thread_names[thread] = name;
    pthread_mutex_unlock(&trace.mutex);
}

/* Trace Event Format: complete events ("X") in microseconds, and thread names as metadata ("M"). */
static void write_events(rk_buffer *out) {
    rk_buffer_append_text(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    rk_buffer_append_text(
        out, "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"reckon\"}}");
    for (int i = 1; i <= trace.n_threads && i < MAX_NAMED_THREADS; i++)
        if (trace.thread_names[i])
            rk_buffer_printf(
                out,
                ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}}",
                i, trace.thread_names[i]);
    for (size_t i = 0; i < trace.n; i++) {
        const span *s = &trace.spans[i];
        rk_buffer_printf(out,
                         ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"name\":\"%s\",\"ts\":%llu,\"dur\":%llu}",
                         s->thread, s->name, (unsigned long long)(s->begin_us - trace.start_us),
                         (unsigned long long)(s->end_us - s->begin_us));
    }
    rk_buffer_append_text(out, "\n]}\n");
}

rk_status rk_trace_stop(void) {
    if (!atomic_load(&trace.on)) return RK_OK;
    pthread_mutex_lock(&trace.mutex);
    atomic_store(&trace.on, false);
    rk_buffer text = {0};
    rk_status status = trace.status;
    if (status == RK_OK && trace.path) {
        write_events(&text);
        status = text.status;
    }
    if (status == RK_OK && trace.path) status = rk_file_write(trace.path, text.data, text.n_bytes);
    rk_buffer_release(&text);
    RK_FREE_ALL(trace.spans, trace.path);
    trace.spans = NULL;
    trace.path = NULL;
    trace.n = trace.capacity = 0;
    pthread_mutex_unlock(&trace.mutex);
    return status;
}
