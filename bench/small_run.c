#include "small_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/rng.h"

static rk_status train_run(const char *directory, const char *text) {
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

static void write_csv_rows(FILE *file, const small_run *run) {
    rk_rng rng = {2, 1, 0};
    for (int c = 0; c < run->n_ids; c++) fprintf(file, "c%d,", c);
    for (int c = 0; c < run->n_numbers; c++) fprintf(file, "x%d,", c);
    fprintf(file, "y\n");
    for (int i = 0; i < run->n_rows; i++) {
        for (int c = 0; c < run->n_ids; c++)
            fprintf(file, "%lld,", (long long)rk_rng_below(&rng, (uint64_t)run->n_different));
        for (int c = 0; c < run->n_numbers; c++) fprintf(file, "%.3f,", rk_rng_normal(&rng));
        fprintf(file, "%d\n", i % 2);
    }
}

static void write_run_file(rk_buffer *text, const small_run *run) {
    rk_buffer_printf(text, "data: {train: rows.csv, labels: [{name: y}], features: [");
    for (int c = 0; c < run->n_ids; c++) rk_buffer_printf(text, "{name: c%d, %s}, ", c, run->feature);
    for (int c = 0; c < run->n_numbers; c++) rk_buffer_printf(text, "{name: x%d, dense: true}, ", c);
    rk_buffer_printf(text, "]}\n%s", run->rest);
}

rk_status small_run_train(const char *directory, const small_run *run) {
    char path[320];
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    snprintf(path, sizeof path, "%s/rows.csv", directory);
    FILE *file = fopen(path, "w");
    if (!file) return rk_error(RK_IO, "'%s' cannot be written", path);
    write_csv_rows(file, run);
    fclose(file);
    write_run_file(&text, run);
    RK_TRY(text.status);
    return train_run(directory, text.data);
}

rk_status small_run_train_table(const char *directory, int64_t n_rows, int64_t dim) {
    char feature[64], rest[400];
    snprintf(feature, sizeof feature, "identity: %lld", (long long)n_rows);
    snprintf(rest, sizeof rest,
             "embedding: {optimizer: {kind: sgd}, dim: %lld, tables: [{name: t, rows: %lld}], "
             "features: [{match: 'c*', table: t}]}\nmodel: {kind: dnn, deep: [128, 64]}\n"
             "train: {batch_size: 256, epochs: 1}\n",
             (long long)dim, (long long)n_rows);
    const small_run run = {
        .n_rows = 256, .n_ids = SMALL_RUN_FEATURES, .n_different = n_rows, .feature = feature, .rest = rest};
    return small_run_train(directory, &run);
}

static bool read_options(int n_arguments, char **arguments, small_run_option *options, int n_options) {
    for (int i = 1; i < n_arguments; i += 2) {
        int k = 0;
        while (k < n_options && strcmp(arguments[i], options[k].name) != 0) k++;
        if (k == n_options || i + 1 == n_arguments) return false;
        options[k].value = atoll(arguments[i + 1]);
        if (options[k].value < 1 || options[k].value > options[k].most) return false;
    }
    return n_arguments > 0;
}

int small_run_main(int n_arguments, char **arguments, small_run_option *options, int n_options,
                   const char *usage, small_run_body *body, const void *context) {
    char directory[] = "/tmp/reckon-bench-XXXXXX", command[100];
    if (!read_options(n_arguments, arguments, options, n_options)) {
        fprintf(stderr, "usage: %s\n", usage);
        return 2;
    }
    if (!mkdtemp(directory)) return 1;
    rk_status status = body(directory, options, context);
    if (status != RK_OK) fprintf(stderr, "%s\n", rk_last_error());
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command) != 0 || status != RK_OK;
}
