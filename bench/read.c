/* bench_read FILE RUN.yaml [--batch N]: how fast a file becomes batches, read in its own order and not kept.
 * One line of JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread/clock.h"
#include "base/file/file.h"
#include "base/memory.h"
#include "data/dataset/dataset.h"

typedef struct sums {
    int64_t n_rows;
    uint64_t ids;
    double numbers;
} sums;

static void add_batch_to_sums(const rk_batch *b, sums *s) {
    s->n_rows += b->n;
    for (int32_t f = 0; f < b->n_features; f++) {
        const rk_ids *ids = &b->features[f];
        int64_t n = ids->offsets ? ids->offsets[b->n] : b->n * ids->ids_per_sample;
        for (int64_t i = 0; i < n; i++) s->ids += (uint64_t)ids->ids[i];
    }
    for (int64_t i = 0; i < b->n * b->n_dense; i++) s->numbers += (double)b->dense[i];
    for (int64_t i = 0; b->labels && i < b->n * b->n_tasks; i++) s->numbers += (double)b->labels[i];
}

static rk_status read_epoch(const rk_data_section *section, const rk_transforms *transforms,
                            int64_t batch_size, sums *out) {
    rk_dataset *dataset;
    const rk_batch *batch;
    RK_TRY(rk_dataset_create(
        section, transforms,
        &(rk_dataset_options){.directory = "", .split = "train", .batch_size = batch_size}, &dataset));
    rk_status status;
    while ((status = rk_dataset_next(dataset, &batch)) == RK_OK) add_batch_to_sums(batch, out);
    rk_dataset_free(dataset);
    return status == RK_END ? RK_OK : status;
}

static rk_status time_reading(char *file, const char *run_file, int64_t batch_size) {
    rk_yaml yaml = {0};
    rk_data_section section = {0};
    rk_transforms *transforms = NULL;
    char *text = NULL, **paths = section.train.path;
    int64_t n_paths = 0;
    size_t n_text;
    uint64_t n_bytes;
    sums s = {0};
    rk_status status;
    RK_GOTO(rk_file_read(run_file, &text, &n_text));
    RK_GOTO(rk_yaml_parse(run_file, text, n_text, &yaml));
    RK_GOTO(rk_schema_bind(&rk_data_schema_table, &yaml, rk_yaml_find_key(yaml.root, "data"), &section));
    RK_GOTO(rk_file_size(file, &n_bytes));
    paths = section.train.path;
    n_paths = section.train.n_path;
    section.train.path = &file;
    section.train.n_path = 1;
    section.cache_bytes = 0;
    status = rk_transforms_fit_section(&section, &yaml, &(rk_fit_options){.directory = ""}, &transforms);
    double begin = rk_clock_seconds();
    if (status == RK_OK) status = read_epoch(&section, transforms, batch_size, &s);
    double seconds = rk_clock_seconds() - begin;
    section.train.path = paths;
    section.train.n_path = n_paths;
    if (status == RK_OK)
        printf("{\"rows\": %lld, \"seconds\": %.4f, \"bytes\": %llu, \"checksum\": \"%llu %.9g\"}\n",
               (long long)s.n_rows, seconds, (unsigned long long)n_bytes, (unsigned long long)s.ids,
               s.numbers);
done:
    rk_transforms_free(transforms);
    rk_schema_release(&rk_data_schema_table, &section);
    rk_yaml_release(&yaml);
    rk_free(text);
    return status;
}

int main(int n_arguments, char **arguments) {
    bool has_batch = n_arguments == 5 && strcmp(arguments[3], "--batch") == 0;
    if (n_arguments != 3 && !has_batch) {
        fprintf(stderr, "usage: bench_read FILE RUN.yaml [--batch N]\n");
        return 2;
    }
    rk_status status = time_reading(arguments[1], arguments[2], has_batch ? atoll(arguments[4]) : 65536);
    if (status != RK_OK) fprintf(stderr, "%s\n", rk_last_error());
    return status != RK_OK;
}
