/* bench_rows_in_redis URL [--table-rows N] [--dim N] [--requests N]: requests whose rows are in Redis, at
 * redis://HOST:PORT/PREFIX (bench/redis starts one). A model of 26 features of one table, whose rows are
 * exported there; ids are uniform over the table. Requests of 1, 10 and 100 samples, of which all rows are
 * fetched, in one round trip; then all are in the cache. One line of JSON for each: rows fetched a request,
 * the median and the 99th percentile of its time, and its processor time here, in seconds. */
#include <stdio.h>
#include <stdlib.h>

#include <reckon/reckon.h>

#include "base/memory.h"
#include "base/rng.h"
#include "base/thread/clock.h"
#include "small_run.h"
#include "workload.h"

enum { FEATURES = SMALL_RUN_FEATURES, MOST_SAMPLES = 100, MOST_REQUESTS = 100000 };

/* Of the options. */
enum { TABLE_ROWS, DIM, REQUESTS };

typedef struct sizes {
    int64_t table_rows, dim, requests;
} sizes;

/* Drawn anew for each request, so that none finds its rows in a cache that holds a few. */
static void draw_request(rk_rng *rng, const sizes *s, int64_t n, int64_t *ids, rk_ids *features) {
    for (int f = 0; f < FEATURES; f++) {
        for (int64_t i = 0; i < n; i++) ids[f * n + i] = (int64_t)rk_rng_below(rng, (uint64_t)s->table_rows);
        features[f] = (rk_ids){.ids_per_sample = 1, .ids = ids + f * n};
    }
}

/* name NULL: nothing is printed, and the cache is filled. */
static rk_status measure_requests(rk_predictor *predictor, const sizes *s, int64_t n, const char *name) {
    static int64_t ids[FEATURES * MOST_SAMPLES];
    static float predictions[MOST_SAMPLES];
    static double seconds[MOST_REQUESTS];
    rk_ids features[FEATURES];
    rk_session *session;
    rk_rng rng = {4, 1, 0};
    int64_t before[2], after[2];
    double cpu = 0;
    RK_TRY(rk_session_create(predictor, NULL, &session));
    rk_predictor_count_rows(predictor, &before[0], &before[1]);
    rk_status status = RK_OK;
    for (int64_t i = 0; i < s->requests && status == RK_OK; i++) {
        draw_request(&rng, s, n, ids, features);
        const rk_batch batch = {.n = n, .features = features, .n_features = FEATURES};
        double begin = rk_clock_seconds(), begin_cpu = thread_seconds();
        status = rk_session_run_batch(session, &batch, predictions);
        cpu += thread_seconds() - begin_cpu;
        seconds[i] = rk_clock_seconds() - begin;
    }
    rk_predictor_count_rows(predictor, &after[0], &after[1]);
    rk_session_free(session);
    if (status != RK_OK || !name) return status;
    qsort(seconds, (size_t)s->requests, sizeof *seconds, ascending);
    printf(
        "{\"cache\": \"%s\", \"samples\": %lld, \"fetched\": %.1f, \"p50\": %.9f, \"p99\": %.9f, "
        "\"cpu\": %.9f}\n",
        name, (long long)n, (double)(after[1] - before[1]) / (double)s->requests, seconds[s->requests / 2],
        seconds[s->requests * 99 / 100], cpu / (double)s->requests);
    fflush(stdout);
    return RK_OK;
}

/* With a cache of one byte, or one that holds all rows and has read them. */
static rk_status measure_with_cache(const char *path, const sizes *s, bool holds_all) {
    rk_predictor_options options = RK_PREDICTOR_OPTIONS_INIT;
    rk_predictor *predictor;
    options.row_cache_bytes = holds_all ? (uint64_t)s->table_rows * (uint64_t)(s->dim * 8 + 200) : 1;
    options.row_timeout = 10;
    RK_TRY(rk_predictor_open(path, &options, &predictor));
    rk_status status = RK_OK;
    for (int64_t n = 1; n <= MOST_SAMPLES && status == RK_OK; n *= 10) {
        if (holds_all) status = measure_requests(predictor, s, n, NULL);
        if (status == RK_OK) status = measure_requests(predictor, s, n, holds_all ? "all" : "none");
    }
    rk_predictor_free(predictor);
    return status;
}

static rk_status run_benchmark(const char *directory, const small_run_option *options, const void *url) {
    const sizes s = {options[TABLE_ROWS].value, options[DIM].value, options[REQUESTS].value};
    char from[300], to[300];
    rk_export_options export = RK_EXPORT_OPTIONS_INIT;
    snprintf(from, sizeof from, "%s/run", directory);
    snprintf(to, sizeof to, "%s/export", directory);
    export.rows_to = url;
    RK_TRY(small_run_train_table(directory, s.table_rows, s.dim));
    RK_TRY(rk_export_safetensors(from, &export, to));
    RK_TRY(measure_with_cache(to, &s, false));
    return measure_with_cache(to, &s, true);
}

int main(int n_arguments, char **arguments) {
    small_run_option options[] = {
        [TABLE_ROWS] = {"--table-rows", 200000, INT64_MAX},
        [DIM] = {"--dim", 32, INT64_MAX},
        [REQUESTS] = {"--requests", 500, MOST_REQUESTS},
    };
    return small_run_main(n_arguments - 1, arguments + 1, options, 3,
                          "bench_rows_in_redis URL [--table-rows N] [--dim N] [--requests N]", run_benchmark,
                          arguments[1]);
}
