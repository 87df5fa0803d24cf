/* bench_sessions [--threads N] [--rows N] [--requests N]: requests from memory by one thread and by N at
 * once, each with a session of one predictor, over 26 columns of ids and 13 of numbers. What N threads take
 * of what one takes for the same requests each: 1.0 where they do not wait for one another and have a
 * processor each. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <reckon/reckon.h>

#include "arrow_building.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/thread/clock.h"
#include "small_run.h"
#include "workload.h"

enum { IDS = 26, NUMBERS = 13, COLUMNS = IDS + NUMBERS, DIFFERENT = 1000000, ROUNDS = 9, MOST_THREADS = 64 };

/* Of the options. */
enum { THREADS, ROWS, REQUESTS };

/* Columns of one request, which all threads share. */
typedef struct request {
    int64_t n;
    char names[COLUMNS][8];
    int64_t *ids[IDS];       /* [n] */
    float *numbers[NUMBERS]; /* [n] */
    arrow_column columns[COLUMNS];
    arrow_table table;
} request;

static rk_status draw_request(request *r) {
    arrow_column *all[COLUMNS];
    rk_rng rng = {1, 1, 0};
    for (int c = 0; c < COLUMNS; c++) {
        bool is_id = c < IDS;
        snprintf(r->names[c], sizeof r->names[c], "%c%d", is_id ? 'c' : 'x', is_id ? c : c - IDS);
        if (is_id)
            RK_TRY(rk_alloc((size_t)r->n, sizeof **r->ids, &r->ids[c]));
        else
            RK_TRY(rk_alloc((size_t)r->n, sizeof **r->numbers, &r->numbers[c - IDS]));
        for (int64_t i = 0; i < r->n; i++)
            if (is_id)
                r->ids[c][i] = (int64_t)rk_rng_below(&rng, DIFFERENT);
            else
                r->numbers[c - IDS][i] = (float)rk_rng_normal(&rng);
        const void *values = is_id ? (const void *)r->ids[c] : (const void *)r->numbers[c - IDS];
        arrow_set(&r->columns[c], r->names[c], is_id ? "l" : "f", r->n, NULL, values, NULL);
        all[c] = &r->columns[c];
    }
    arrow_set_table(&r->table, all, COLUMNS, r->n);
    return RK_OK;
}

static void free_request(request *r) {
    for (int c = 0; c < IDS; c++) rk_free(r->ids[c]);
    for (int c = 0; c < NUMBERS; c++) rk_free(r->numbers[c]);
}

/* A few steps: a model's speed does not depend on what it has learned. */
static const small_run trained = {
    .n_rows = 4096,
    .n_ids = IDS,
    .n_numbers = NUMBERS,
    .n_different = DIFFERENT,
    .feature = "hash: 50000",
    .rest =
        "embedding: {dim: 16}\nmodel: {kind: dcn_v2, deep: [256, 128], cross_layers: 2, cross_kind: "
        "low_rank, cross_rank: 32}\ntrain: {batch_size: 1024, epochs: 1}\n"};

typedef struct caller {
    rk_session *session;
    const request *request;
    float *predictions;
    int64_t n_requests;
    double cpu_s;
    long n_waits; /* times that the thread gave its processor away by itself */
    rk_status status;
} caller;

static void *run_caller_thread(void *context) {
    caller *c = context;
    struct rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    double begin = thread_seconds();
    for (int64_t i = 0; i < c->n_requests && c->status == RK_OK; i++)
        c->status =
            rk_session_run(c->session, &c->request->table.schema, &c->request->table.array, c->predictions);
    c->cpu_s = thread_seconds() - begin;
    getrusage(RUSAGE_THREAD, &after);
    c->n_waits = after.ru_nvcsw - before.ru_nvcsw;
    if (c->status != RK_OK) fprintf(stderr, "%s\n", rk_last_error());
    return NULL;
}

typedef struct measured {
    double seconds, cpu_s; /* all requests of all threads */
    long n_waits;
} measured;

static rk_status run_callers_at_once(caller *callers, int n_threads, measured *out) {
    pthread_t threads[MOST_THREADS];
    *out = (measured){0};
    double begin = rk_clock_seconds();
    for (int t = 0; t < n_threads; t++)
        if (pthread_create(&threads[t], NULL, run_caller_thread, &callers[t]) != 0)
            return rk_error(RK_INTERNAL, "no thread");
    for (int t = 0; t < n_threads; t++) {
        pthread_join(threads[t], NULL);
        out->cpu_s += callers[t].cpu_s;
        out->n_waits += callers[t].n_waits;
        if (callers[t].status != RK_OK) return callers[t].status;
    }
    out->seconds = rk_clock_seconds() - begin;
    return RK_OK;
}

static int compare_seconds(const void *a, const void *b) {
    double x = ((const measured *)a)->seconds, y = ((const measured *)b)->seconds;
    return (x > y) - (x < y);
}

static void print_measurement(int n_threads, const request *r, int64_t n_requests, measured m) {
    double n = (double)(n_threads * n_requests);
    printf("%2d threads  %8.1f requests/s  %10.0f rows/s  %8.1f us of a processor a request  %ld waits\n",
           n_threads, n / m.seconds, n * (double)r->n / m.seconds, 1e6 * m.cpu_s / n, m.n_waits);
}

/* One and many by turns; the median of each. */
static rk_status measure_by_turns(const rk_predictor *predictor, const request *r, int n_threads,
                                  int64_t n_requests) {
    caller callers[MOST_THREADS] = {0};
    measured one[ROUNDS + 1], many[ROUNDS + 1];
    rk_status status = RK_OK;
    for (int t = 0; t < n_threads && status == RK_OK; t++) {
        callers[t] = (caller){.request = r, .n_requests = n_requests};
        status = rk_alloc((size_t)r->n, sizeof *callers[t].predictions, &callers[t].predictions);
        if (status == RK_OK) status = rk_session_create(predictor, NULL, &callers[t].session);
    }
    for (int round = 0; round <= ROUNDS && status == RK_OK;
         round++) { /* the last one in the place of the first */
        status = run_callers_at_once(callers, 1, &one[round % ROUNDS]);
        if (status == RK_OK) status = run_callers_at_once(callers, n_threads, &many[round % ROUNDS]);
    }
    if (status == RK_OK) {
        qsort(one, ROUNDS, sizeof *one, compare_seconds);
        qsort(many, ROUNDS, sizeof *many, compare_seconds);
        print_measurement(1, r, n_requests, one[ROUNDS / 2]);
        print_measurement(n_threads, r, n_requests, many[ROUNDS / 2]);
        const measured *m = &many[ROUNDS / 2], *o = &one[ROUNDS / 2];
        printf(
            "%d threads take %.2f times as long as one for as many requests each, and %.2f times the "
            "processor "
            "time a request\n",
            n_threads, m->seconds / o->seconds, m->cpu_s / o->cpu_s / n_threads);
    }
    for (int t = 0; t < n_threads; t++) {
        rk_session_free(callers[t].session);
        rk_free(callers[t].predictions);
    }
    return status;
}

static rk_status run_benchmark(const char *directory, const small_run_option *options, const void *context) {
    (void)context;
    static request r;
    char path[300];
    rk_predictor *predictor = NULL;
    rk_status status;
    r.n = options[ROWS].value;
    snprintf(path, sizeof path, "%s/run", directory);
    RK_GOTO(small_run_train(directory, &trained));
    RK_GOTO(draw_request(&r));
    RK_GOTO(rk_predictor_open(path, NULL, &predictor));
    RK_GOTO(measure_by_turns(predictor, &r, (int)options[THREADS].value, options[REQUESTS].value));
done:
    rk_predictor_free(predictor);
    free_request(&r);
    return status;
}

int main(int n_arguments, char **arguments) {
    small_run_option options[] = {
        [THREADS] = {"--threads", 2, MOST_THREADS},
        [ROWS] = {"--rows", 64, INT64_MAX},
        [REQUESTS] = {"--requests", 2000, INT64_MAX},
    };
    return small_run_main(n_arguments, arguments, options, 3,
                          "bench_sessions [--threads N] [--rows N] [--requests N]", run_benchmark, NULL);
}
