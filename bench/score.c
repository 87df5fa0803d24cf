/* bench_score MODEL DIRECTORY ROWS USERS [--seconds 1]
 *
 * W9: one user beside many items, from columns in memory, without a server. The user's are a workload's first
 * USERS features, of the first sample, and its numbers; the items' are the other features, of the first ROWS
 * samples. By turns rk_session_score takes both, and rk_session_run all of it written out in each row. One
 * line of JSON: the median of a call's processor seconds, over runs of two milliseconds, of either way; the
 * predictions have to be the same bits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrow_building.h"
#include "workload.h"

typedef struct table {
    int64_t n;
    arrow_column *columns, *items; /* [MAX_ARROW_COLUMNS] of lists, what is in them */
    arrow_column *all[MAX_ARROW_COLUMNS];
    int64_t n_columns;
    arrow_table arrow;
} table;

static void *must_alloc(int64_t n, size_t size) {
    void *memory = calloc((size_t)n + 1, size);
    if (!memory) die("memory ran out");
    return memory;
}

static void init_table(table *t, int64_t n) {
    *t = (table){.n = n,
                 .columns = must_alloc(MAX_ARROW_COLUMNS, sizeof *t->columns),
                 .items = must_alloc(MAX_ARROW_COLUMNS, sizeof *t->items)};
}

/* As many rows of a feature as the table has, or the first sample's in each of them. */
static void add_id_column(table *t, const workload_feature *f, bool one) {
    int64_t h = f->hotness, c = t->n_columns++;
    int64_t *ids = must_alloc(t->n * h, sizeof *ids);
    int32_t *ends = must_alloc(t->n + 1, sizeof *ends);
    for (int64_t i = 0; i < t->n; i++) {
        memcpy(ids + i * h, f->ids + (one ? 0 : i * h), (size_t)h * sizeof *ids);
        ends[i + 1] = (int32_t)((i + 1) * h);
    }
    arrow_set(&t->items[c], "item", "l", t->n * h, NULL, ids, NULL);
    arrow_set(&t->columns[c], f->name, "+l", t->n, NULL, ends, NULL);
    arrow_set_items(&t->columns[c], &t->items[c]);
    if (h == 1) arrow_set(&t->columns[c], f->name, "l", t->n, NULL, ids, NULL);
    t->all[c] = &t->columns[c];
}

static void add_number_column(table *t, const workload *w, int64_t number) {
    float *values = must_alloc(t->n, sizeof *values);
    char *name = must_alloc(16, 1);
    int64_t c = t->n_columns++;
    snprintf(name, 16, "n%lld", (long long)number);
    for (int64_t i = 0; i < t->n; i++) values[i] = w->dense[number];
    arrow_set(&t->columns[c], name, "f", t->n, NULL, values, NULL);
    t->all[c] = &t->columns[c];
}

/* The user's columns, the items', or both. */
static void make_table(table *t, const workload *w, int64_t n, int64_t n_users, bool user, bool items) {
    init_table(t, n);
    if (w->n_features + w->n_dense > MAX_ARROW_COLUMNS) die("there are too many columns");
    for (int64_t f = 0; f < w->n_features; f++)
        if (f < n_users ? user : items) add_id_column(t, &w->features[f], f < n_users);
    for (int64_t c = 0; user && c < w->n_dense; c++) add_number_column(t, w, c);
    arrow_set_table(&t->arrow, t->all, t->n_columns, n);
}

typedef struct ways {
    rk_session *session;
    table full, user, items;
    float *predictions[2]; /* written out, scored */
} ways;

static double time_calls(ways *w, bool score, int64_t n_calls) {
    double begin = cpu_seconds();
    for (int64_t c = 0; c < n_calls; c++)
        check(score ? rk_session_score(w->session, &w->user.arrow.schema, &w->user.arrow.array,
                                       &w->items.arrow.schema, &w->items.arrow.array, w->predictions[1])
                    : rk_session_run(w->session, &w->full.arrow.schema, &w->full.arrow.array,
                                     w->predictions[0]));
    return (cpu_seconds() - begin) / (double)n_calls;
}

int main(int argc, char **argv) {
    enum { MOST_RUNS = 10000, LEAST_RUNS = 5 };
    if (argc < 5) die("usage: bench_score MODEL DIRECTORY ROWS USERS [--seconds 1]");
    static double seconds[2][MOST_RUNS];
    workload w;
    ways both;
    rk_predictor *predictor;
    rk_predictor_options options = RK_PREDICTOR_OPTIONS_INIT;
    options.device = "cpu";
    workload_load(argv[2], &w);
    int64_t n = atoll(argv[3]), n_users = atoll(argv[4]), n_calls[2], n_runs = 0;
    if (n < 1 || n > w.n || n_users < 1 || n_users >= w.n_features)
        die("there are not so many rows or users");
    check(rk_predictor_open(argv[1], &options, &predictor));
    check(rk_session_create(predictor, NULL, &both.session));
    make_table(&both.full, &w, n, n_users, true, true);
    make_table(&both.user, &w, 1, n_users, true, false);
    make_table(&both.items, &w, n, n_users, false, true);
    for (int k = 0; k < 2; k++) both.predictions[k] = must_alloc(n, sizeof(float));
    for (int k = 0; k < 2; k++) {
        time_calls(&both, k, 2);
        n_calls[k] = 1 + (int64_t)(2e-3 / (time_calls(&both, k, 1) + 1e-7));
    }
    if (memcmp(both.predictions[0], both.predictions[1], (size_t)n * sizeof(float)) != 0)
        die("the predictions differ");
    double until = seconds_now() + atof(option(argc, argv, "--seconds", "1"));
    for (; n_runs < LEAST_RUNS || (n_runs < MOST_RUNS && seconds_now() < until); n_runs++)
        for (int k = 0; k < 2; k++) seconds[k][n_runs] = time_calls(&both, k, n_calls[k]);
    for (int k = 0; k < 2; k++) qsort(seconds[k], (size_t)n_runs, sizeof *seconds[k], ascending);
    printf("{\"written_out\": %.9f, \"scored\": %.9f}\n", seconds[0][n_runs / 2], seconds[1][n_runs / 2]);
    rk_session_free(both.session);
    rk_predictor_free(predictor);
    return 0; /* tables and predictions stay until the end */
}
