/* W1, our side: lookups of a workload's batches, with or without backward and update, through the public API
 * alone.
 *
 *     bench_lookup DIRECTORY [--mode forward|train] [--optimizer rowwise_adagrad|sgd|adagrad] [--rate 0.1]
 *     [--dtype f32|bf16|f16] [--steps 5] [--threads 0] [--gather no]
 *     [--clock wall|cpu]
 *
 * One line of JSON: seconds of each step after a first that is not counted, and sums of the activations by
 * which both sides are compared. Rows begin at 0.01. --gather yes: after each step the smallest loop
 * (gather.h) reads the same batch from the same rows, the smallest sort (sort.h) sorts its ids, and gather's
 * loop adds the gradients of the sorted uses, so that what the machine does beside it slows all alike.
 * --clock cpu: seconds of a step are those of all threads together, which other programs disturb less than
 * the clock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <reckon/reckon.h>

#include "embedding/local/collection.h"
#include "gather.h"
#include "sort.h"
#include "workload.h"

/* Of gradients [n, width] in the order of the rows; sorted: gradients_by_row. */
static gather make_gather_of_gradients(const workload *sorted, const float *gradient) {
    const float **columns = calloc((size_t)sorted->n_features, sizeof *columns);
    int64_t at = 0;
    for (int64_t f = 0; f < sorted->n_features; at += sorted->features[f++].dim) columns[f] = gradient + at;
    gather g = {.w = sorted,
                .tables = columns,
                .stride = workload_width(sorted),
                .out = huge_floats(sorted->n * workload_width(sorted), 0),
                .width = workload_width(sorted)};
    gather_tune(&g);
    return g;
}

/* Of the collection's own rows; kept for good. */
static gather make_gather_of_collection(const workload *w, rk_embeddings *embeddings) {
    rk_state_dict state = {0};
    const float **tables = calloc((size_t)w->n_features, sizeof *tables);
    check(rk_embeddings_state_dict(embeddings, &state));
    for (int64_t f = 0; f < w->n_features; f++) {
        char name[96];
        snprintf(name, sizeof name, "table/%s/rows", w->features[f].name);
        const rk_state_dict_entry *rows = rk_state_dict_find(&state, name);
        if (!rows || rows->type != RK_F32) die("gather reads f32 rows alone");
        tables[f] = rows->data;
    }
    rk_state_dict_release(&state);
    gather g = {.w = w,
                .tables = tables,
                .out = huge_floats(w->n * workload_width(w), 0),
                .width = workload_width(w)};
    gather_tune(&g);
    return g;
}

int main(int argc, char **argv) {
    if (argc < 2) die("usage: bench_lookup DIRECTORY [options]");
    workload w;
    workload_load(argv[1], &w);
    bool train = strcmp(option(argc, argv, "--mode", "forward"), "train") == 0;
    bool gathers = strcmp(option(argc, argv, "--gather", "no"), "yes") == 0;
    int64_t steps = atoll(option(argc, argv, "--steps", "5")), width = workload_width(&w);
    check(rk_set_threads(atoi(option(argc, argv, "--threads", "0"))));
    const char *kind = option(argc, argv, "--optimizer", "rowwise_adagrad");
    rk_optimizer optimizer;
    check(rk_optimizer_init(&optimizer, strcmp(kind, "sgd") == 0       ? RK_OPTIMIZER_SGD
                                        : strcmp(kind, "adagrad") == 0 ? RK_OPTIMIZER_ADAGRAD
                                                                       : RK_OPTIMIZER_ROWWISE_ADAGRAD));
    optimizer.learning_rate = atof(option(argc, argv, "--rate", "0.1"));
    const rk_initializer constant = {.kind = RK_INIT_CONSTANT, .value = 0.01};
    const char *rows = option(argc, argv, "--dtype", "f32");
    rk_dtype dtype = strcmp(rows, "bf16") == 0 ? RK_BF16 : strcmp(rows, "f16") == 0 ? RK_F16 : RK_F32;
    rk_embeddings *embeddings = workload_embeddings(&w, dtype, &constant, &optimizer);
    float *out = huge_floats(w.n * width, 0),
          *gradient = load_array(argv[1], "gradient", ".f32", w.n * width * 4);
    if (train && !gradient) die("no gradient.f32");
    rk_activation *activations = workload_columns(&w, out, width),
                  *gradients = workload_columns(&w, gradient, width);
    rk_ids *ids = calloc((size_t)w.n_features, sizeof *ids);
    double *seconds = calloc((size_t)steps + 1, sizeof *seconds),
           *gather_seconds = calloc((size_t)steps + 1, sizeof *gather_seconds),
           *sort_seconds = calloc((size_t)steps + 1, sizeof *sort_seconds),
           *add_seconds = calloc((size_t)steps + 1, sizeof *add_seconds);
    double (*clock)(void) =
        strcmp(option(argc, argv, "--clock", "wall"), "cpu") == 0 ? cpu_seconds : seconds_now;
    rk_lookup *lookup;
    check(rk_lookup_create(embeddings, &lookup));
    gather g = {0}, adds = {0};
    sorter sorts = {0};
    workload sorted = {0};
    if (gathers) {
        g = make_gather_of_collection(&w, embeddings);
        sorts = sorter_of(&w);
        if (!gradient) die("no gradient.f32");
        sorted = gradients_by_row(&w);
        adds = make_gather_of_gradients(&sorted, gradient);
    }
    for (int64_t s = 0; s <= steps; s++) {
        int64_t b = s % w.n_batches;
        rk_batch batch = workload_batch(&w, b, ids);
        double begin = clock();
        if (train) {
            check(rk_embeddings_lookup(embeddings, w.n, batch.features, lookup, activations));
            check(rk_lookup_apply_gradients(lookup, gradients));
        } else {
            check(rk_embeddings_lookup_eval(embeddings, w.n, batch.features, lookup, activations));
        }
        seconds[s] = clock() - begin;
        if (!gathers) continue;
        int64_t other = (b + w.n_batches / 2) % w.n_batches; /* whose rows the lookups have brought in as long
                                                                ago as it has theirs */
        gather_seconds[s] = gather_batch(&g, other);
        sort_seconds[s] = sort_batch(&sorts, other);
        add_seconds[s] = gather_batch(&adds, other);
    }
    check(
        rk_embeddings_lookup_eval(embeddings, w.n, workload_batch(&w, 0, ids).features, lookup, activations));
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < w.n * width; i++) sum += out[i], squares += (double)out[i] * out[i];
    printf("{");
    print_seconds("seconds", seconds + 1, steps);
    if (gathers) {
        print_seconds("gather_seconds", gather_seconds + 1, steps);
        print_seconds("sort_seconds", sort_seconds + 1, steps);
        print_seconds("add_seconds", add_seconds + 1, steps);
    }
    printf(
        "\"bytes\": %lld, \"sum\": %.9g, \"squares\": %.9g, \"peak_bytes\": %lld, \"isa\": \"%s\", "
        "\"threads\": %d}\n",
        (long long)workload_lookup_bytes(&w), sum, squares, (long long)peak_bytes(), rk_runtime_isa(),
        rk_threads());
    return 0;
}
