#include "workload.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/hash.h"
#include "base/memory.h"
#include "model/model.h"

void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static FILE *open_part(const char *directory, const char *name, const char *suffix) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%s", directory, name, suffix);
    return fopen(path, "rb");
}

void check(rk_status status) {
    if (status != RK_OK) die("%s", rk_last_error());
}

float *huge_floats(int64_t n, float value) {
    void *pages;
    check(rk_pages_alloc((size_t)n * sizeof(float), &pages));
    float *data = pages;
    for (int64_t i = 0; i < n; i++) data[i] = value;
    return data;
}

void *load_array(const char *directory, const char *name, const char *suffix, int64_t n_bytes) {
    FILE *file = open_part(directory, name, suffix);
    if (!file) return NULL;
    void *data;
    check(rk_pages_alloc((size_t)n_bytes, &data));
    if (fread(data, 1, (size_t)n_bytes, file) != (size_t)n_bytes)
        die("'%s/%s%s' is shorter than %lld bytes", directory, name, suffix, (long long)n_bytes);
    fclose(file);
    return data;
}

void dump_array(const char *directory, const char *name, const char *suffix, const void *data,
                size_t n_bytes) {
    char path[4096], *file_name = path + snprintf(path, sizeof path, "%s/", directory);
    snprintf(file_name, sizeof path - (size_t)(file_name - path), "%s%s", name, suffix);
    for (char *c = file_name; *c; c++)
        if (*c == '/') *c = '.';
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, n_bytes, file) != n_bytes) die("cannot write '%s'", path);
    fclose(file);
}

void dump_parameters(rk_model *model, const char *prefix, const char *directory) {
    rk_state_dict state = {0};
    size_t skipped = strcmp(prefix, "dense/") == 0 ? strlen(prefix) : 0;
    check(rk_model_state_dict(model, &state));
    for (size_t i = 0; i < state.n; i++) {
        const rk_state_dict_entry *entry = &state.entries[i];
        char name[512];
        if (strncmp(entry->name, prefix, strlen(prefix)) != 0 || entry->type != RK_F32) continue;
        snprintf(name, sizeof name, "%s", entry->name + skipped);
        for (char *c = name; *c; c++)
            if (*c == '/') *c = '.';
        dump_array(directory, name, ".f32", entry->data, rk_state_dict_entry_bytes(entry));
        printf("%s %lld %lld\n", name, (long long)entry->dims[0], (long long)entry->dims[1]);
    }
    rk_state_dict_release(&state);
}

void workload_load(const char *directory, workload *w) {
    FILE *file = open_part(directory, "features", ".txt");
    long long n_batches, n, n_dense, n_rows, dim, hotness;
    if (!file || fscanf(file, "%lld %lld %lld", &n_batches, &n, &n_dense) != 3)
        die("'%s/features.txt' is missing or damaged", directory);
    *w = (workload){.n_batches = n_batches, .n = n, .n_dense = n_dense};
    workload_feature f;
    while (fscanf(file, "%63s %lld %lld %lld", f.name, &n_rows, &dim, &hotness) == 4) {
        f.n_rows = n_rows;
        f.dim = dim;
        f.hotness = hotness;
        f.ids = load_array(directory, f.name, ".i64", n_batches * n * hotness * (int64_t)sizeof *f.ids);
        w->features = realloc(w->features, (size_t)(w->n_features + 1) * sizeof *w->features);
        if (!f.ids || !w->features) die("'%s/%s.i64' cannot be read", directory, f.name);
        w->features[w->n_features++] = f;
    }
    fclose(file);
    w->dense = load_array(directory, "dense", ".f32", n_batches * n * n_dense * (int64_t)sizeof *w->dense);
    w->labels = load_array(directory, "labels", ".f32", n_batches * n * (int64_t)sizeof *w->labels);
}

rk_batch workload_batch(const workload *w, int64_t b, rk_ids *ids) {
    for (int64_t f = 0; f < w->n_features; f++)
        ids[f] = (rk_ids){.ids_per_sample = w->features[f].hotness,
                          .ids = w->features[f].ids + b * w->n * w->features[f].hotness};
    return (rk_batch){.n = w->n,
                      .n_dense = (int32_t)w->n_dense,
                      .n_features = (int32_t)w->n_features,
                      .n_tasks = 1,
                      .dense = w->dense ? w->dense + b * w->n * w->n_dense : NULL,
                      .features = ids,
                      .labels = w->labels ? w->labels + b * w->n : NULL};
}

double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

const char *option(int argc, char **argv, const char *name, const char *otherwise) {
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0) return argv[i + 1];
    return otherwise;
}

double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

double thread_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void print_seconds(const char *name, const double *seconds, int64_t n) {
    printf("\"%s\": [", name);
    for (int64_t s = 0; s < n; s++) printf("%s%.6f", s ? ", " : "", seconds[s]);
    printf("], ");
}

int64_t peak_bytes(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (int64_t)usage.ru_maxrss * 1024;
}

rk_embeddings *workload_embeddings(const workload *w, rk_dtype dtype, const rk_initializer *initializer,
                                   const rk_optimizer *optimizer) {
    rk_table_config *tables = calloc((size_t)w->n_features, sizeof *tables);
    rk_feature_config *features = calloc((size_t)w->n_features, sizeof *features);
    for (int64_t f = 0; f < w->n_features; f++) {
        const workload_feature *from = &w->features[f];
        tables[f] = (rk_table_config){.struct_size = sizeof *tables,
                                      .name = from->name,
                                      .n_rows = from->n_rows,
                                      .dim = (int32_t)from->dim,
                                      .dtype = dtype,
                                      .initializer = *initializer};
        features[f] = (rk_feature_config){.struct_size = sizeof *features,
                                          .name = from->name,
                                          .table = from->name,
                                          .combiner = RK_COMBINER_SUM};
    }
    rk_embeddings_config config = {.struct_size = sizeof config,
                                   .seed = 1,
                                   .tables = tables,
                                   .n_tables = (int32_t)w->n_features,
                                   .features = features,
                                   .n_features = (int32_t)w->n_features,
                                   .optimizer = optimizer};
    rk_embeddings *embeddings;
    check(rk_embeddings_create(&config, &embeddings));
    free(tables);
    free(features);
    return embeddings;
}

int64_t workload_width(const workload *w) {
    int64_t width = 0;
    for (int64_t f = 0; f < w->n_features; f++) width += w->features[f].dim;
    return width;
}

int64_t workload_lookup_bytes(const workload *w) {
    int64_t values = 0;
    for (int64_t f = 0; f < w->n_features; f++)
        values += w->n * (w->features[f].hotness + 1) * w->features[f].dim;
    return values * (int64_t)sizeof(float);
}

rk_activation *workload_columns(const workload *w, float *data, int64_t width) {
    rk_activation *out = calloc((size_t)w->n_features, sizeof *out);
    for (int64_t f = 0, at = 0; f < w->n_features; at += w->features[f++].dim)
        out[f] = (rk_activation){data + at, width, NULL};
    return out;
}

uint64_t zipf_id(uint64_t n, rk_rng *rng) {
    double a = -0.05, rank = pow(1 + rk_rng_uniform(rng) * (pow((double)n, a) - 1), 1 / a);
    uint64_t mixed = (uint64_t)rank * 0x9E3779B97F4A7C15u;
    return rk_hash_bucket(mixed, n);
}
