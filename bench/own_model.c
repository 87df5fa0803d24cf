/* W15, our side: training steps of a run file's own model on its own data, of which some batches are in
 * memory already.
 *
 *     bench_own_model RUN.yaml [--set KEY=VALUE]... [--batches 8] [--steps 100] [--warm 10] [--threads 0]
 *     [--clock wall|cpu] [--dump DIRECTORY]
 *
 * One line of JSON: seconds and loss of each step, with the first ones (--warm) in `losses` alone; --clock
 * cpu: seconds of all threads together, which other programs disturb less than the clock. Batches
 * are taken in turn; sampled items are others in each step. --dump writes what the peers begin with, and
 * stops: dense/ and tables/ with the parameters' first values, and of batch B the arrays B.labels, B.dense,
 * and of each feature B.<feature>.ids and B.<feature>.offsets; of a two_tower, histories are features too,
 * and B.pairs are the items of the pairs and those that step B samples. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "batch/ids.h"
#include "data/dataset/dataset.h"
#include "model/retrieval/retrieval.h"
#include "model/step/local_batch.h"
#include "train/config/run_config.h"
#include "workload.h"

enum { MOST_OVERRIDES = 16 };

static void *copy_bytes(const void *data, size_t n_bytes) {
    void *copy = malloc(n_bytes + 1);
    if (!copy) die("no memory for a batch");
    if (n_bytes) memcpy(copy, data, n_bytes);
    return copy;
}

/* For good. */
static rk_batch copy_batch(const rk_batch *b) {
    rk_batch copy = *b;
    rk_ids *features = calloc((size_t)b->n_features + 1, sizeof *features);
    size_t n = (size_t)b->n;
    for (int32_t f = 0; f < b->n_features; f++) {
        rk_id_list list = {0};
        check(rk_id_list_append(&list, &b->features[f], 0, b->n));
        features[f] = rk_id_list_view(&list);
    }
    copy.features = features;
    if (b->dense) copy.dense = copy_bytes(b->dense, n * (size_t)b->n_dense * sizeof *b->dense);
    if (b->labels) copy.labels = copy_bytes(b->labels, n * (size_t)b->n_tasks * sizeof *b->labels);
    if (b->groups || b->sample_weights) die("rows with groups or weights are not copied");
    return copy;
}

static rk_batch *read_batches(rk_dataset *dataset, int64_t n) {
    rk_batch *batches = calloc((size_t)n, sizeof *batches);
    const rk_batch *b;
    for (int64_t i = 0; i < n; i++) {
        check(rk_dataset_next_endless(dataset, &b));
        if (b->n < rk_dataset_batch_size(dataset))
            i--; /* the last one of an epoch */
        else
            batches[i] = copy_batch(b);
    }
    return batches;
}

static void dump_ids(const char *directory, int64_t number, const char *feature, const rk_ids *ids,
                     int64_t n) {
    char name[256];
    int64_t *offsets = calloc((size_t)n + 1, sizeof *offsets), begin = rk_ids_begin_of_sample(ids, 0);
    for (int64_t i = 0; i <= n; i++) offsets[i] = rk_ids_begin_of_sample(ids, i) - begin;
    snprintf(name, sizeof name, "%lld.%s", (long long)number, feature);
    dump_array(directory, name, ".offsets", offsets, (size_t)(n + 1) * sizeof *offsets);
    dump_array(directory, name, ".ids", ids->ids + begin, (size_t)offsets[n] * sizeof *ids->ids);
    free(offsets);
}

/* As step `number` is to see it. */
static void dump_batch(rk_model *model, const rk_data_schema *schema, const rk_batch *b, int64_t number,
                       const char *directory) {
    rk_local_batch *local = &model->queue.slots[0];
    rk_rank_batch whole = rk_rank_batch_from_batch(b, RK_NO_TIMESTAMP);
    char name[64];
    check(model->loss->fill(model, &whole, number, local));
    for (int32_t f = 0; f < local->batch.n_features; f++)
        dump_ids(directory, number, f < schema->n_features ? schema->features[f].name : "history",
                 &local->batch.features[f], local->batch.n);
    snprintf(name, sizeof name, "%lld", (long long)number);
    if (b->dense)
        dump_array(directory, name, ".dense", b->dense, (size_t)(b->n * b->n_dense) * sizeof *b->dense);
    if (b->labels) dump_array(directory, name, ".labels", b->labels, (size_t)b->n * sizeof *b->labels);
    if (!model->retrieval) return;
    int64_t n_pairs = b->n + rk_retrieval_n_negatives(model->retrieval);
    dump_array(directory, name, ".pairs", local->pairs.ids, (size_t)n_pairs * sizeof *local->pairs.ids);
}

static void dump_workload(rk_model *model, const rk_data_schema *schema, const rk_batch *batches, int64_t n,
                          const char *directory) {
    char part[4096];
    printf("batch %lld %d\n", (long long)batches[0].n, batches[0].n_dense);
    for (int32_t f = 0; f < schema->n_features; f++) printf("%s 0 0\n", schema->features[f].name);
    for (int64_t i = 0; i < n; i++) dump_batch(model, schema, &batches[i], i, directory);
    snprintf(part, sizeof part, "%s/dense", directory);
    mkdir(part, 0777);
    dump_parameters(model, "dense/", part);
    snprintf(part, sizeof part, "%s/tables", directory);
    mkdir(part, 0777);
    dump_parameters(model, "table/", part);
}

static void train_and_time(rk_model *model, const rk_batch *batches, int64_t n_batches, int64_t warm,
                           int64_t steps, double (*clock)(void)) {
    double *losses = calloc((size_t)(warm + steps), sizeof *losses),
           *seconds = calloc((size_t)(warm + steps), sizeof *seconds);
    for (int64_t s = 0; s < warm + steps; s++) {
        double begin = clock();
        check(rk_model_train(model, &batches[s % n_batches], &losses[s]));
        seconds[s] = clock() - begin;
    }
    printf("{\"seconds\": [");
    for (int64_t s = warm; s < warm + steps; s++) printf("%s%.9f", s > warm ? ", " : "", seconds[s]);
    printf("], \"first_seconds\": %.6f, \"losses\": [", seconds[0]);
    for (int64_t s = 0; s < warm + steps; s++) printf("%s%.9g", s ? ", " : "", losses[s]);
    printf("], \"peak_bytes\": %lld, \"isa\": \"%s\", \"threads\": %d}\n", (long long)peak_bytes(),
           rk_runtime_isa(), rk_threads());
}

int main(int argc, char **argv) {
    if (argc < 2) die("usage: bench_own_model RUN.yaml [options]");
    const char *overrides[MOST_OVERRIDES], *to = option(argc, argv, "--dump", NULL);
    size_t n_overrides = 0;
    for (int i = 2; i + 1 < argc; i++)
        if (strcmp(argv[i], "--set") == 0 && n_overrides < MOST_OVERRIDES)
            overrides[n_overrides++] = argv[i + 1];
    int64_t n_batches = atoll(option(argc, argv, "--batches", "8"));
    rk_config *config;
    rk_dataset *dataset;
    rk_model_options options;
    rk_model *model;
    check(rk_config_load(argv[1], overrides, n_overrides, &config));
    check(rk_set_threads(atoi(option(argc, argv, "--threads", "0"))));
    check(rk_dataset_open(config, "train", &dataset));
    check(rk_config_training_options(config, dataset, &options));
    check(rk_model_build(&options, &model));
    rk_batch *batches = read_batches(dataset, n_batches);
    if (to) dump_workload(model, rk_dataset_schema(dataset), batches, n_batches, to);
    rk_dataset_free(dataset);
    if (!to)
        train_and_time(model, batches, n_batches, atoll(option(argc, argv, "--warm", "10")),
                       atoll(option(argc, argv, "--steps", "100")),
                       strcmp(option(argc, argv, "--clock", "wall"), "cpu") == 0 ? cpu_seconds : seconds_now);
    rk_model_free(model);
    return 0;
}
