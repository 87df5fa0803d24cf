/* bench_rows_in_files [--table-rows N] [--dim N] [--rows N] [--requests N]: what it costs that an export's
 * rows stay in its files. One table of random rows is exported in each format; each export is opened with its
 * rows in memory (f32 alone) and in its file, and measured: the time to open it, the memory that is its own
 * and that it shares with others, the processor time of a row in a lookup of single ids and of bags of ten,
 * and of a request of 26 ids a row. One thread; ids are uniform over the table, files are in the page cache.
 */
#include <stdio.h>
#include <stdlib.h>

#include <reckon/reckon.h>

#include "base/memory.h"
#include "base/rng.h"
#include "base/thread/clock.h"
#include "small_run.h"
#include "workload.h"

enum { FEATURES = SMALL_RUN_FEATURES, BAG = 10, ROUNDS = 7, SINGLES = 8192 };

/* Of the options. */
enum { TABLE_ROWS, DIM, ROWS, REQUESTS };

typedef struct sizes {
    int64_t table_rows, dim, rows, requests;
} sizes;

/* MB of this process that no other has, and of files that are in memory. */
static void read_resident_memory(double *own, double *of_files) {
    char line[200];
    double kb;
    FILE *file = fopen("/proc/self/status", "r");
    *own = *of_files = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "RssAnon: %lf", &kb) == 1) *own = kb * 1e-3;
        if (sscanf(line, "RssFile: %lf", &kb) == 1) *of_files = kb * 1e-3;
    }
    if (file) fclose(file);
}

/* Batches of one shape: ids of all features, and where lookups put their vectors. */
typedef struct batches {
    int64_t n, per_sample;
    int64_t *ids;   /* [FEATURES, n * per_sample] */
    float *vectors; /* [n, dim], of one feature after the other */
    rk_ids features[FEATURES];
    rk_activation activations[FEATURES];
} batches;

static rk_status draw_requests(batches *b, const sizes *s, int64_t n, int64_t per_sample) {
    rk_rng rng = {1, 1, 0};
    int64_t n_ids = n * per_sample;
    *b = (batches){.n = n, .per_sample = per_sample};
    RK_TRY(rk_alloc((size_t)(FEATURES * n_ids), sizeof *b->ids, &b->ids));
    RK_TRY(rk_alloc((size_t)(n * s->dim), sizeof *b->vectors, &b->vectors));
    for (int64_t i = 0; i < FEATURES * n_ids; i++)
        b->ids[i] = (int64_t)rk_rng_below(&rng, (uint64_t)s->table_rows);
    for (int f = 0; f < FEATURES; f++) {
        b->features[f] = (rk_ids){.ids_per_sample = per_sample, .ids = b->ids + f * n_ids};
        b->activations[f] = (rk_activation){.data = b->vectors, .stride = s->dim};
    }
    return RK_OK;
}

static void free_requests(batches *b) {
    rk_free(b->ids);
    rk_free(b->vectors);
}

static double sort_and_take_median(double *values) {
    qsort(values, ROUNDS, sizeof *values, ascending);
    return values[ROUNDS / 2];
}

/* Nanoseconds of a processor a row. */
static rk_status time_lookups(rk_predictor *predictor, const batches *b, double *out) {
    rk_embeddings *e = rk_model_embeddings(rk_predictor_model(predictor));
    rk_lookup *lookup;
    double seconds[ROUNDS + 1];
    RK_TRY(rk_lookup_create(e, &lookup));
    rk_status status = RK_OK;
    for (int round = 0; round <= ROUNDS && status == RK_OK;
         round++) { /* the last in the place of the first */
        double begin = thread_seconds();
        status = rk_embeddings_lookup_eval(e, b->n, b->features, lookup, b->activations);
        seconds[round % ROUNDS] = thread_seconds() - begin;
    }
    rk_lookup_free(lookup);
    *out = 1e9 * sort_and_take_median(seconds) / (double)(FEATURES * b->n * b->per_sample);
    return status;
}

/* Microseconds of a processor a request. */
static rk_status time_requests(rk_predictor *predictor, const sizes *s, const batches *b, double *out) {
    rk_session *session;
    float *predictions = NULL;
    double seconds[ROUNDS + 1];
    RK_TRY(rk_session_create(predictor, NULL, &session));
    rk_status status = rk_alloc((size_t)s->rows, sizeof *predictions, &predictions);
    for (int round = 0; round <= ROUNDS && status == RK_OK; round++) {
        double begin = thread_seconds();
        for (int64_t i = 0; i < s->requests && status == RK_OK; i++) {
            rk_ids ids[FEATURES];
            int64_t first = (i * s->rows) % (b->n - s->rows + 1);
            for (int f = 0; f < FEATURES; f++)
                ids[f] = (rk_ids){.ids_per_sample = 1, .ids = b->features[f].ids + first};
            rk_batch batch = {.n = s->rows, .features = ids, .n_features = FEATURES};
            status = rk_session_run_batch(session, &batch, predictions);
        }
        seconds[round % ROUNDS] = thread_seconds() - begin;
    }
    rk_free(predictions);
    rk_session_free(session);
    *out = 1e6 * sort_and_take_median(seconds) / (double)s->requests;
    return status;
}

static rk_status measure_format(const char *path, const char *name, rk_rows_in rows_in, const sizes *s,
                                const batches *single, const batches *bags) {
    rk_predictor_options options = RK_PREDICTOR_OPTIONS_INIT;
    rk_predictor *predictor;
    double before[2], after[2], lookup_ns, bag_ns, request_us;
    read_resident_memory(&before[0], &before[1]);
    options.rows_in = rows_in;
    double begin = rk_clock_seconds();
    RK_TRY(rk_predictor_open(path, &options, &predictor));
    double open_ms = 1e3 * (rk_clock_seconds() - begin);
    rk_status status = time_lookups(predictor, single, &lookup_ns);
    if (status == RK_OK) status = time_lookups(predictor, bags, &bag_ns);
    if (status == RK_OK) status = time_requests(predictor, s, single, &request_us);
    read_resident_memory(&after[0], &after[1]);
    rk_predictor_free(predictor);
    RK_TRY(status);
    printf("| %s | %.0f | %.0f | %.0f | %.1f | %.1f | %.0f |\n", name, open_ms, after[0] - before[0],
           after[1] - before[1], lookup_ns, bag_ns, request_us);
    fflush(stdout);
    return RK_OK;
}

static rk_status measure_all_formats(const char *directory, const sizes *s, const batches *single,
                                     const batches *bags) {
    static const char *const names[] = {"f32", "f16", "bf16", "int8", "int4"};
    char run[300], path[320];
    rk_export_options options = RK_EXPORT_OPTIONS_INIT;
    snprintf(run, sizeof run, "%s/run", directory);
    printf(
        "| rows | open, ms | own, MB | of files, MB | ns a row | in bags | us a request |\n"
        "|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < 5; i++) {
        options.rows = (rk_export_rows)(RK_EXPORT_ROWS_F32 + i);
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        RK_TRY(rk_export_safetensors(run, &options, path));
        if (i == 0) RK_TRY(measure_format(path, "f32, in memory", RK_ROWS_IN_MEMORY, s, single, bags));
        RK_TRY(measure_format(path, names[i], RK_ROWS_IN_FILES, s, single, bags));
    }
    return RK_OK;
}

static rk_status run_benchmark(const char *directory, const small_run_option *options, const void *context) {
    (void)context;
    const sizes s = {options[TABLE_ROWS].value, options[DIM].value, options[ROWS].value,
                     options[REQUESTS].value};
    batches single = {0}, bags = {0};
    rk_status status;
    RK_GOTO(small_run_train_table(directory, s.table_rows, s.dim));
    RK_GOTO(draw_requests(&single, &s, SINGLES, 1));
    RK_GOTO(draw_requests(&bags, &s, 1024, BAG));
    RK_GOTO(measure_all_formats(directory, &s, &single, &bags));
done:
    free_requests(&single);
    free_requests(&bags);
    return status;
}

int main(int n_arguments, char **arguments) {
    small_run_option options[] = {
        [TABLE_ROWS] = {"--table-rows", 2000000, INT64_MAX},
        [DIM] = {"--dim", 64, INT64_MAX},
        [ROWS] = {"--rows", 100, SINGLES},
        [REQUESTS] = {"--requests", 500, INT64_MAX},
    };
    return small_run_main(n_arguments, arguments, options, 4,
                          "bench_rows_in_files [--table-rows N] [--dim N] [--rows N] [--requests N]",
                          run_benchmark, NULL);
}
