#include "server/log/request_log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread/trace.h"
#include "server/log/log_file.h"

/* Records of one request. */
typedef struct item {
    rk_buffer records;
    int64_t n_records;
    struct item *next;
} item;

struct rk_request_log {
    rk_request_log_options options;
    char *path;
    rk_log_file file; /* the writer's */
    char failure[512];
    atomic_uint_fast64_t n_written, n_dropped;
    pthread_t writer;
    bool started;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t work;
    item *first, **last;
    size_t n_waiting_bytes;
    bool stop;
};

/* Each reason is told of once, until something can be written again. */
static void log_failure(rk_request_log *log) {
    char reason[sizeof log->failure];
    rk_error_copy(reason, sizeof reason);
    if (strcmp(reason, log->failure) == 0) return;
    memcpy(log->failure, reason, sizeof reason);
    rk_log(RK_LOG_ERROR, "request log: records are dropped: %s", reason);
}

static void write_queued_records(rk_request_log *log, item *i) {
    if (rk_log_file_append(&log->file, i->records.data, i->records.n_bytes) == RK_OK) {
        atomic_fetch_add(&log->n_written, (uint64_t)i->n_records);
        log->failure[0] = 0;
    } else {
        atomic_fetch_add(&log->n_dropped, (uint64_t)i->n_records);
        log_failure(log);
    }
    rk_buffer_release(&i->records);
    rk_free(i);
}

/* Under the mutex: all that waits, when there is some, or none at the end. */
static item *wait_for_queued_records(rk_request_log *log) {
    while (!log->first && !log->stop) pthread_cond_wait(&log->work, &log->mutex);
    item *all = log->first;
    log->first = NULL;
    log->last = &log->first;
    return all;
}

static void *run_log_writer(void *argument) {
    rk_request_log *log = argument;
    rk_trace_name_thread("request log");
    pthread_mutex_lock(&log->mutex);
    for (item *all; (all = wait_for_queued_records(log));) {
        pthread_mutex_unlock(&log->mutex);
        size_t n_bytes = 0;
        for (item *next; all; all = next) {
            next = all->next;
            n_bytes += all->records.n_bytes;
            write_queued_records(log, all);
        }
        pthread_mutex_lock(&log->mutex);
        log->n_waiting_bytes -= n_bytes;
    }
    pthread_mutex_unlock(&log->mutex);
    return NULL;
}

static rk_status start_log_writer(rk_request_log *log) {
    RK_TRY(rk_strdup(log->options.path, &log->path));
    RK_TRY(rk_log_file_open(log->path, (uint64_t)log->options.max_bytes, log->options.max_files, &log->file));
    int code = pthread_create(&log->writer, NULL, run_log_writer, log);
    if (code != 0) return rk_error_errno(RK_NO_MEMORY, code, "could not start the request log's thread");
    log->started = true;
    return RK_OK;
}

rk_status rk_request_log_open(const rk_request_log_options *options, rk_request_log **out) {
    rk_request_log *log;
    RK_TRY(rk_alloc(1, sizeof *log, &log));
    *log = (rk_request_log){.options = *options, .file = {.lock = -1, .descriptor = -1}, .last = &log->first};
    pthread_mutex_init(&log->mutex, NULL);
    pthread_cond_init(&log->work, NULL);
    rk_status status = start_log_writer(log);
    if (status == RK_OK)
        *out = log;
    else
        rk_request_log_close(log);
    return status;
}

void rk_request_log_close(rk_request_log *log) {
    if (!log) return;
    pthread_mutex_lock(&log->mutex);
    log->stop = true;
    pthread_cond_signal(&log->work);
    pthread_mutex_unlock(&log->mutex);
    if (log->started) pthread_join(log->writer, NULL);
    rk_log_file_close(&log->file);
    pthread_mutex_destroy(&log->mutex);
    pthread_cond_destroy(&log->work);
    RK_FREE_ALL(log->path, log);
}

bool rk_request_log_is_sampled(const rk_request_log *log, rk_span request_id) {
    if (!log) return false;
    double place =
        (double)(rk_hash_bytes(request_id.data, request_id.n_bytes, 0) >> 11) * 0x1p-53; /* [0, 1) */
    return place < log->options.sampling_rate;
}

/* False: there is no room. */
static bool enqueue_records(rk_request_log *log, item *i) {
    pthread_mutex_lock(&log->mutex);
    bool room = log->n_waiting_bytes < log->options.max_queue_bytes &&
                i->records.n_bytes <= log->options.max_queue_bytes - log->n_waiting_bytes;
    if (room) {
        *log->last = i;
        log->last = &i->next;
        log->n_waiting_bytes += i->records.n_bytes;
        pthread_cond_signal(&log->work);
    }
    pthread_mutex_unlock(&log->mutex);
    return room;
}

void rk_request_log_append(rk_request_log *log, rk_buffer *records, int64_t n_records) {
    item *i = NULL;
    if (records->status == RK_OK && rk_alloc(1, sizeof *i, &i) == RK_OK) {
        *i = (item){.records = *records, .n_records = n_records};
        if (enqueue_records(log, i)) {
            *records = (rk_buffer){0};
            return;
        }
    }
    rk_free(i);
    rk_buffer_release(records);
    atomic_fetch_add(&log->n_dropped, (uint64_t)n_records);
}

size_t rk_request_log_max_bytes(const rk_request_log *log) {
    return log->options.max_queue_bytes;
}

rk_request_log_counts rk_request_log_count(const rk_request_log *log) {
    return (rk_request_log_counts){atomic_load(&log->n_written), atomic_load(&log->n_dropped)};
}
