/* bench_forward MODEL DIRECTORY ROWS [--seconds 1]
 *
 * W9, our side without a server: one thread predicts the first ROWS samples of a workload's batches, which
 * are ids and numbers in memory already, by turns. One line of JSON: the median and the least of a call's
 * processor seconds, over runs of a millisecond, and the first batch's predictions. MODEL: a run, or an
 * export. */
#include <stdio.h>
#include <stdlib.h>

#include "workload.h"

typedef struct side {
    workload w;
    rk_session *session;
    rk_ids *ids;
    int64_t n, n_done; /* rows of a call; calls so far */
    float *predictions;
} side;

/* Processor seconds of some calls, over the batches in turn. */
static double time_calls(side *s, int64_t n_calls) {
    double begin = cpu_seconds();
    for (int64_t c = 0; c < n_calls; c++) {
        rk_batch batch = workload_batch(&s->w, s->n_done++ % s->w.n_batches, s->ids);
        batch.n = s->n;
        check(rk_session_run_batch(s->session, &batch, s->predictions));
    }
    return cpu_seconds() - begin;
}

static void print_predictions(const side *s) {
    printf("\"predictions\": [");
    for (int64_t i = 0; i < s->n; i++) printf("%s%.9g", i ? ", " : "", (double)s->predictions[i]);
    printf("]");
}

int main(int argc, char **argv) {
    enum { MOST_RUNS = 100000, LEAST_RUNS = 5 };
    if (argc < 4) die("usage: bench_forward MODEL DIRECTORY ROWS [--seconds 1]");
    static double seconds[MOST_RUNS];
    side s = {.n = atoll(argv[3])};
    rk_predictor *predictor;
    rk_predictor_options options = RK_PREDICTOR_OPTIONS_INIT;
    options.device = "cpu";
    workload_load(argv[2], &s.w);
    if (s.n < 1 || s.n > s.w.n) die("a batch has %lld samples", (long long)s.w.n);
    check(rk_predictor_open(argv[1], &options, &predictor));
    check(rk_session_create(predictor, NULL, &s.session));
    s.ids = calloc((size_t)s.w.n_features, sizeof *s.ids);
    s.predictions = calloc((size_t)s.n, sizeof *s.predictions);
    if (!s.ids || !s.predictions) die("memory ran out");
    time_calls(&s, 1);
    printf("{");
    print_predictions(&s);
    time_calls(&s, s.w.n_batches); /* rows and code come near */
    double once = time_calls(&s, s.w.n_batches) / (double)s.w.n_batches;
    int64_t n_calls = 1 + (int64_t)(1e-3 / once), n_runs = 0;
    double until = seconds_now() + atof(option(argc, argv, "--seconds", "1"));
    while (n_runs < LEAST_RUNS || (n_runs < MOST_RUNS && seconds_now() < until))
        seconds[n_runs++] = time_calls(&s, n_calls) / (double)n_calls;
    qsort(seconds, (size_t)n_runs, sizeof *seconds, ascending);
    printf(", \"seconds\": %.9f, \"least\": %.9f, \"calls\": %lld, \"isa\": \"%s\"}\n", seconds[n_runs / 2],
           seconds[0], (long long)(n_runs * n_calls), rk_runtime_isa());
    rk_session_free(s.session);
    rk_predictor_free(predictor);
    free(s.ids);
    free(s.predictions);
    return 0;
}
