#include "small_run.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"

rk_status small_run_train(const char *directory, const char *text) {
    char output[320];
    const char *overrides[] = {output};
    rk_config *config;
    rk_trainer *trainer;
    snprintf(output, sizeof output, "train.output=%s/run", directory);
    rk_status status = rk_config_parse(text, "run.yaml", directory, overrides, 1, &config);
    if (status != RK_OK) return status;
    status = rk_trainer_create(config, NULL, &trainer);
    if (status == RK_OK) {
        status = rk_trainer_run(trainer);
        rk_trainer_free(trainer);
    }
    rk_config_free(config);
    return status;
}

rk_status small_run_train_table(const char *directory, int64_t n_rows, int64_t dim) {
    enum { TRAINED_ROWS = 256 };
    char path[300], text[4000] = "data: {train: rows.csv, labels: [{name: y}], features: [";
    rk_rng rng = {2, 1, 0};
    snprintf(path, sizeof path, "%s/rows.csv", directory);
    FILE *file = fopen(path, "w");
    if (!file) return rk_error(RK_IO, "'%s' cannot be written", path);
    for (int f = 0; f < SMALL_RUN_FEATURES; f++) {
        sprintf(text + strlen(text), "{name: c%d, identity: %lld}, ", f, (long long)n_rows);
        fprintf(file, "c%d,", f);
    }
    fprintf(file, "y\n");
    for (int i = 0; i < TRAINED_ROWS; i++) {
        for (int f = 0; f < SMALL_RUN_FEATURES; f++)
            fprintf(file, "%lld,", (long long)rk_rng_below(&rng, (uint64_t)n_rows));
        fprintf(file, "%d\n", i % 2);
    }
    fclose(file);
    sprintf(text + strlen(text),
            "]}\nembedding: {optimizer: {kind: sgd}, dim: %lld, tables: [{name: t, rows: %lld}], "
            "features: [{match: 'c*', table: t}]}\nmodel: {kind: dnn, deep: [128, 64]}\n"
            "train: {batch_size: 256, epochs: 1}\n",
            (long long)dim, (long long)n_rows);
    return small_run_train(directory, text);
}
