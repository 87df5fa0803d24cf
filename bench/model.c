/* W2 to W4, our side: training steps of a run file's model on a workload's batches, which are in memory already.
 *
 *     bench_model RUN.yaml DIRECTORY [--steps 5] [--threads 0] [--from memory|rows] [--dump DIRECTORY] [--dtype f32|bf16] [--staleness 0]
 *
 * One line of JSON: seconds and loss of each step; the first, which touches the memory first, is told apart. --from rows takes the batches from the run
 * file's training data instead, read and transformed (hashed) within the time. --dump writes the dense parameters' first
 * values, dense/<name> with '/' as '.', as raw f32, and stops: the peers begin with them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <reckon/reckon.h>

#include "train/run_config.h"
#include "workload.h"

static void check(rk_status status) {
    if (status != RK_OK) die("%s", rk_last_error());
}

static void dump(rk_model *model, const char *directory) {
    rk_state state = {0};
    check(rk_model_state(model, &state));
    for (size_t i = 0; i < state.n; i++) {
        const rk_state_entry *entry = &state.entries[i];
        if (strncmp(entry->name, "dense/", 6) != 0 || entry->type != RK_STATE_F32) continue;
        char name[512], path[4096];
        snprintf(name, sizeof name, "%s", entry->name + 6);
        for (char *c = name; *c; c++)
            if (*c == '/') *c = '.';
        snprintf(path, sizeof path, "%s/%s.f32", directory, name);
        FILE *file = fopen(path, "wb");
        if (!file || fwrite(entry->data, 1, rk_state_entry_bytes(entry), file) != rk_state_entry_bytes(entry)) die("cannot write '%s'", path);
        fclose(file);
        printf("%s %lld %lld\n", name, (long long)entry->dims[0], (long long)entry->dims[1]);
    }
    rk_state_release(&state);
}

/* The next batch of the file, over and over. */
static const rk_batch *next_rows(rk_dataset *rows) {
    const rk_batch *batch;
    rk_status status = rk_dataset_next(rows, &batch);
    check(status == RK_END ? rk_dataset_next(rows, &batch) : status);
    return batch;
}

int main(int argc, char **argv) {
    if (argc < 3) die("usage: bench_model RUN.yaml DIRECTORY [options]");
    workload w;
    workload_load(argv[2], &w);
    rk_config *config;
    check(rk_config_load(argv[1], NULL, 0, &config));
    check(rk_set_threads(atoi(option(argc, argv, "--threads", "0"))));
    const rk_transforms *transforms;
    check(rk_config_transforms(config, NULL, NULL, &transforms));
    rk_model_options options;
    check(rk_config_model_options(config, rk_transforms_schema(transforms), true, &options));
    if (strcmp(option(argc, argv, "--dtype", "f32"), "bf16") == 0) options.dtype = RK_BF16;
    options.staleness = atoll(option(argc, argv, "--staleness", "0"));
    rk_model *model;
    double began = seconds_now();
    check(rk_model_build(&options, &model));
    double build_seconds = seconds_now() - began;
    const char *to = option(argc, argv, "--dump", NULL);
    if (to) {
        dump(model, to);
        return 0;
    }
    int64_t steps = atoll(option(argc, argv, "--steps", "5"));
    rk_dataset *rows = NULL;
    if (strcmp(option(argc, argv, "--from", "memory"), "rows") == 0) check(rk_dataset_open(config, "train", &rows));
    rk_ids *ids = calloc((size_t)w.n_features, sizeof *ids);
    double *losses = calloc((size_t)steps + 1, sizeof *losses);
    printf("{\"seconds\": [");
    double first = 0;
    for (int64_t s = 0; s <= steps; s++) {
        rk_batch batch = workload_batch(&w, s % w.n_batches, ids);
        double begin = seconds_now();
        check(rk_model_train(model, rows ? next_rows(rows) : &batch, &losses[s]));
        double passed = seconds_now() - begin;
        if (s == 0)
            first = passed;
        else
            printf("%s%.6f", s > 1 ? ", " : "", passed);
    }
    rk_dataset_free(rows);
    printf("], \"first_seconds\": %.6f, \"build_seconds\": %.3f, \"losses\": [", first, build_seconds);
    for (int64_t s = 0; s <= steps; s++) printf("%s%.9g", s ? ", " : "", losses[s]);
    printf("], \"peak_bytes\": %lld, \"isa\": \"%s\", \"threads\": %d}\n", (long long)peak_bytes(), rk_runtime_isa(), rk_threads());
    return 0;
}
