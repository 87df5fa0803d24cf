/* One workload's batches as raw arrays in a folder, the same files that the peers read (bench/README.md):
 *     features.txt          "n_batches n n_dense", then a line a feature: name rows dim hotness
 *     <feature>.i64         [n_batches, n, hotness] ids
 *     dense.f32             [n_batches, n, n_dense]
 *     labels.f32            [n_batches, n]
 *     gradient.f32          [n, sum of dims], of lookup workloads */
#ifndef RK_BENCH_WORKLOAD_H
#define RK_BENCH_WORKLOAD_H

#include <stdint.h>

#include <reckon/reckon.h>

#include "base/rng.h"

typedef struct workload_feature {
    char name[64];
    int64_t n_rows, dim, hotness;
    int64_t *ids;
} workload_feature;

typedef struct workload {
    int64_t n_batches, n, n_dense, n_features;
    workload_feature *features; /* [n_features] */
    float *dense, *labels;      /* NULL where there is no such file */
} workload;

/* Every one of these prints what is wrong and exits: a benchmark has no one to tell. */
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void check(rk_status status);
void *load_array(const char *directory, const char *name, const char *suffix, int64_t n_bytes);
void workload_load(const char *directory, workload *out);
/* A raw array for the peers to begin with: `directory`/<name><suffix>, '/' in the name as '.'. */
void dump_array(const char *directory, const char *name, const char *suffix, const void *data,
                size_t n_bytes);
/* The first values of the model's f32 tensors whose names begin with the prefix, <name>.f32 ("dense/" is left
 * out of it), and of each a line on stdout: its name and shape. */
void dump_parameters(rk_model *model, const char *prefix, const char *directory);
/* Batch b; ids [n_features] is filled in and pointed to. */
rk_batch workload_batch(const workload *w, int64_t b, rk_ids *ids);
/* Values of a sample's activations, all features beside each other; bytes that one batch's lookups must move:
 * each looked-up row and each output. */
int64_t workload_width(const workload *w);
int64_t workload_lookup_bytes(const workload *w);
/* n floats of `value`, 64-byte aligned, on huge pages where the machine has them; for good. */
float *huge_floats(int64_t n, float value);
/* A table a feature, summed; and where each feature's activations are among `data` [n, width], one beside the
 * other (free it). */
rk_embeddings *workload_embeddings(const workload *w, rk_dtype dtype, const rk_initializer *initializer,
                                   const rk_optimizer *optimizer);
rk_activation *workload_columns(const workload *w, float *data, int64_t width);

double seconds_now(void);
/* The value after `name` among the arguments, or the default. */
const char *option(int argc, char **argv, const char *name, const char *otherwise);
/* Of all this process's threads so far. */
double cpu_seconds(void);
/* Of this thread so far. */
double thread_seconds(void);
/* One of n ids, by zipf(1.05) of ranks that are dealt to ids at random: by the integral of x^-1.05, as good
 * as the sum where there are many. */
uint64_t zipf_id(uint64_t n, rk_rng *rng);
/* For qsort, of doubles. */
int ascending(const void *a, const void *b);
/* A member of a JSON object, with a comma behind it. */
void print_seconds(const char *name, const double *seconds, int64_t n);
/* Peak resident memory so far. */
int64_t peak_bytes(void);

#endif
