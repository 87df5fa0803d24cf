#include "server/batcher.h"

#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "base/thread/clock.h"
#include "base/thread/trace.h"
#include "server/request/log_inference_call.h"

typedef struct worker {
    rk_batcher *batcher;
    int number;
    pthread_t thread;
    rk_call **calls; /* of the batch under way */
    size_t *ends;    /* of each call, its rows' end */
    size_t n_calls, calls_capacity, ends_capacity;
    rk_call_memory memory;
    rk_record_memory records;
} worker;

struct rk_batcher {
    rk_batcher_options options;
    pthread_mutex_t mutex;
    pthread_cond_t work;
    rk_call *first, **last;
    int64_t n_waiting;
    bool stop;
    worker *workers; /* [n_workers] */
    int n_started;
    atomic_uint_fast64_t n_batches, n_pending;
};

static void finish_call(rk_batcher *b, rk_call *call) {
    atomic_fetch_sub(&b->n_pending, 1);
    call->done(call);
}

/* The next call of any version, or of one that others may join; under the mutex. */
static rk_call *pop_call(rk_batcher *b, const rk_served_version *version) {
    rk_call **at = &b->first;
    while (*at && version && ((*at)->version != version || (*at)->alone)) at = &(*at)->next;
    rk_call *call = *at;
    if (!call) return NULL;
    *at = call->next;
    if (!*at) b->last = at;
    b->n_waiting--;
    return call;
}

/* One that has waited too long is answered so. */
static bool answer_call_if_late(worker *w, rk_call *call) {
    if (rk_clock_seconds() <= call->deadline) return false;
    rk_call_fail_with(call, 504, "the request waited too long");
    finish_call(w->batcher, call);
    return true;
}

/* Appends a call's rows; one that is wrong, or late, is answered. */
static void add_call_to_batch(worker *w, rk_call *call, rk_request_rows *rows, size_t *n_rows) {
    rk_batcher *b = w->batcher;
    if (answer_call_if_late(w, call)) return;
    rk_status status = rk_reserve(&w->calls, &w->calls_capacity, w->n_calls + 1, sizeof *w->calls);
    if (status == RK_OK) status = rk_reserve(&w->ends, &w->ends_capacity, w->n_calls + 1, sizeof *w->ends);
    if (status == RK_OK) status = rk_call_read_rows(call, &b->options.limits, &w->memory.json, rows, *n_rows);
    if (status != RK_OK) {
        rk_request_rows_truncate(rows, *n_rows);
        rk_call_fail(call, status);
        finish_call(b, call);
        return;
    }
    *n_rows += (size_t)call->n_rows;
    w->calls[w->n_calls] = call;
    w->ends[w->n_calls++] = *n_rows;
}

/* Ends a call that was answered, whose rows begin at `first`. */
static void log_and_finish_call(worker *w, rk_call *call, size_t first, const float *predictions) {
    if (call->code == 200)
        rk_log_call(w->batcher->options.log, call, &call->version->rows[w->number], first, predictions,
                    &w->memory.retrieval, &w->records);
    finish_call(w->batcher, call);
}

static void run_single_call(worker *w, rk_call *call) {
    rk_status status = rk_call_run(call, &w->batcher->options.limits, w->number, &w->memory);
    if (status != RK_OK) rk_call_fail(call, status);
    log_and_finish_call(w, call, 0, call->version->catalog ? NULL : w->memory.predictions);
}

static void answer_batch(worker *w, rk_served_version *v, size_t n_rows) {
    size_t n_tasks = (size_t)v->n_tasks, begin = 0;
    rk_status status = rk_predict_rows(v, w->number, n_rows, &w->memory);
    if (status != RK_OK && w->n_calls > 1) { /* a value of one call must not fail the others */
        for (size_t c = 0; c < w->n_calls; c++) run_single_call(w, w->calls[c]);
        return;
    }
    for (size_t c = 0; c < w->n_calls; begin = w->ends[c++]) {
        const float *predictions = status == RK_OK ? w->memory.predictions + begin * n_tasks : NULL;
        if (status == RK_OK)
            rk_call_write_reply(w->calls[c], predictions);
        else
            rk_call_fail(w->calls[c], status);
        log_and_finish_call(w, w->calls[c], begin, predictions);
    }
}

/* The next of the same version, if there is one or one comes in time. */
static rk_call *wait_for_call_of_version(rk_batcher *b, const rk_served_version *v, double until) {
    pthread_mutex_lock(&b->mutex);
    rk_call *call = pop_call(b, v);
    for (double left; !call && !b->stop && (left = until - rk_clock_seconds()) > 0;) {
        struct timespec end = rk_clock_deadline(CLOCK_MONOTONIC, left);
        pthread_cond_timedwait(&b->work, &b->mutex, &end);
        call = pop_call(b, v);
    }
    pthread_mutex_unlock(&b->mutex);
    return call;
}

static void answer_single_call(worker *w, rk_call *call) {
    if (answer_call_if_late(w, call)) return;
    atomic_fetch_add(&w->batcher->n_batches, 1);
    run_single_call(w, call);
}

static void run_call_with_others(worker *w, rk_call *call) {
    rk_batcher *b = w->batcher;
    rk_served_version *v = call->version;
    rk_request_rows *rows = &v->rows[w->number];
    double until = rk_clock_seconds() + b->options.batch_timeout;
    size_t n_rows = 0;
    w->n_calls = 0;
    rk_served_version_ref(v); /* calls let go of it as they end */
    rk_request_rows_truncate(rows, 0);
    if (call->alone) {
        answer_single_call(w, call);
        rk_served_version_unref(v);
        return;
    }
    for (; call;
         call = (int64_t)n_rows < b->options.max_batch_size ? wait_for_call_of_version(b, v, until) : NULL)
        add_call_to_batch(w, call, rows, &n_rows);
    if (w->n_calls > 0) {
        atomic_fetch_add(&b->n_batches, 1);
        answer_batch(w, v, n_rows);
    }
    rk_served_version_unref(v);
}

static void *run_worker(void *argument) {
    worker *w = argument;
    rk_batcher *b = w->batcher;
    rk_trace_name_thread("server's worker");
    pthread_mutex_lock(&b->mutex);
    while (!b->stop) {
        rk_call *call = pop_call(b, NULL);
        if (!call) {
            pthread_cond_wait(&b->work, &b->mutex);
            continue;
        }
        pthread_mutex_unlock(&b->mutex);
        run_call_with_others(w, call);
        pthread_mutex_lock(&b->mutex);
    }
    pthread_mutex_unlock(&b->mutex);
    return NULL;
}

static rk_status start_workers(rk_batcher *b) {
    RK_TRY(rk_alloc((size_t)b->options.n_workers, sizeof *b->workers, &b->workers));
    for (; b->n_started < b->options.n_workers; b->n_started++) {
        worker *w = &b->workers[b->n_started];
        w->batcher = b;
        w->number = b->n_started;
        int code = pthread_create(&w->thread, NULL, run_worker, w);
        if (code != 0) return rk_error_errno(RK_NO_MEMORY, code, "could not start a worker");
    }
    return RK_OK;
}

rk_status rk_batcher_create(const rk_batcher_options *options, rk_batcher **out) {
    rk_batcher *b;
    RK_TRY(rk_alloc(1, sizeof *b, &b));
    b->options = *options;
    b->last = &b->first;
    pthread_mutex_init(&b->mutex, NULL);
    rk_cond_init_monotonic(&b->work);
    rk_status status = start_workers(b);
    if (status == RK_OK)
        *out = b;
    else
        rk_batcher_free(b);
    return status;
}

void rk_batcher_stop(rk_batcher *b) {
    if (!b) return;
    pthread_mutex_lock(&b->mutex);
    b->stop = true;
    pthread_cond_broadcast(&b->work);
    pthread_mutex_unlock(&b->mutex);
    for (; b->n_started > 0; b->n_started--) {
        worker *w = &b->workers[b->n_started - 1];
        pthread_join(w->thread, NULL);
        RK_FREE_ALL(w->calls, w->ends);
        rk_call_memory_release(&w->memory);
        rk_record_memory_release(&w->records);
    }
    for (rk_call *call; (call = pop_call(b, NULL));) { /* none is added any more */
        rk_call_fail_with(call, 503, "the server is stopping");
        finish_call(b, call);
    }
}

void rk_batcher_free(rk_batcher *b) {
    if (!b) return;
    rk_batcher_stop(b);
    pthread_mutex_destroy(&b->mutex);
    pthread_cond_destroy(&b->work);
    RK_FREE_ALL(b->workers, b);
}

static bool mentions_context(const char *text, size_t n_bytes) {
    static const char key[] = "\"context\"";
    return memmem(text, n_bytes, key, sizeof key - 1) != NULL;
}

/* Whether the objects of a body are as many as a context and few rows have. Columns of rows are no objects,
 * and are sent where rows are many. */
static bool may_have_few_rows(rk_span body) {
    enum {
        FEW_ROWS = 6,
        OTHER_OBJECTS = 2
    }; /* rows of a tile of rk_panel_product; the request, its context */
    int n = 0;
    if (memmem(body.data, body.n_bytes, "\"inputs\"", 8)) return false;
    for (const char *at = body.data; (at = memchr(at, '{', (size_t)(body.data + body.n_bytes - at))); at++)
        if (++n > FEW_ROWS + OTHER_OBJECTS) return false;
    return true;
}

/* Users of a two_tower, each of whom has items of his own that are not to be found; and one user beside many
 * items, whose part of the model is computed once. With few items, products of rows from several requests
 * take less than that saves. Only the ends of a long body are looked at: where a context is missed, it is
 * written out in each row. */
static bool is_call_run_alone(const rk_call *call) {
    enum { LOOKED_AT = 4096 };
    size_t n = call->body.n_bytes, some = n < LOOKED_AT ? n : LOOKED_AT;
    if (call->version->catalog) return true;
    if (call->kind == RK_CALL_INFER || n == 0) return false;
    if (n <= LOOKED_AT && may_have_few_rows(call->body)) return false;
    return mentions_context(call->body.data, some) || mentions_context(call->body.data + n - some, some);
}

rk_status rk_batcher_submit(rk_batcher *b, rk_call *call) {
    call->next = NULL;
    call->alone = is_call_run_alone(call);
    pthread_mutex_lock(&b->mutex);
    bool stopped = b->stop, full = b->n_waiting >= b->options.max_enqueued, added = !stopped && !full;
    if (added) {
        *b->last = call;
        b->last = &call->next;
        b->n_waiting++;
        atomic_fetch_add(&b->n_pending, 1);
    }
    pthread_mutex_unlock(&b->mutex);
    /* After the mutex is free, or the worker would wake only to wait for it. Workers that wait for more of
     * one version do not take another's. */
    if (added && b->options.batch_timeout > 0)
        pthread_cond_broadcast(&b->work);
    else if (added)
        pthread_cond_signal(&b->work);
    RK_FAIL_IF(stopped, RK_INTERRUPTED, "the server is stopping");
    RK_FAIL_IF(full, RK_BUSY, "too many requests wait");
    return RK_OK;
}

rk_batcher_counts rk_batcher_get_counts(rk_batcher *b) {
    return (rk_batcher_counts){atomic_load(&b->n_batches), atomic_load(&b->n_pending)};
}
