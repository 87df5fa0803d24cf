#include "find_keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/thread/parallel.h"
#include "embedding/dynamic/key_bucket.h"

enum { LINE = 64, SWEPT = 64 << 20, TRIES = 5 };
static const int64_t distances[] = {8, 16, 32, 64, 128};

/* A batch's keys of a feature. */
typedef struct feature_keys {
    int64_t n_unique, n_uses;
    int64_t *keys;     /* [n_unique] in the order of their first uses, and */
    int64_t *rows;     /* their rows */
    uint32_t *numbers; /* [n_uses] of each use's key among these */
} feature_keys;

struct key_finder {
    const workload *w;
    feature_keys *batches; /* [n_batches, n_features] */
    char **indexes;        /* [n_features, lines of a cache], all zeros */
    uint64_t *n_lines;
    char **info; /* [n_features, n_rows, info_bytes] */
    size_t info_bytes;
    uint32_t *line_numbers; /* [most unique keys], */
    int64_t *found;         /* and their rows */
    int64_t *out;           /* [most uses] */
    int64_t ahead;
};

static feature_keys number_keys(const int64_t *ids, int64_t n, uint32_t *number_of_id) {
    feature_keys k = {.n_uses = n};
    k.keys = calloc((size_t)n, sizeof *k.keys);
    k.rows = calloc((size_t)n, sizeof *k.rows);
    k.numbers = calloc((size_t)n, sizeof *k.numbers);
    for (int64_t i = 0; i < n; i++) {
        if (!number_of_id[ids[i]]) {
            k.keys[k.n_unique] = k.rows[k.n_unique] = ids[i];
            number_of_id[ids[i]] = (uint32_t)++k.n_unique;
        }
        k.numbers[i] = number_of_id[ids[i]] - 1;
    }
    for (int64_t u = 0; u < k.n_unique; u++) number_of_id[k.rows[u]] = 0;
    return k;
}

static char *zeros(double n_bytes) {
    return (char *)(void *)huge_floats((int64_t)(n_bytes / sizeof(float)) + LINE, 0);
}

key_finder *key_finder_of(const workload *w, double room, double index_bytes, size_t info_bytes) {
    key_finder *k = calloc(1, sizeof *k);
    int64_t most = 0;
    *k = (key_finder){.w = w, .info_bytes = info_bytes, .ahead = distances[0]};
    k->batches = calloc((size_t)(w->n_batches * w->n_features), sizeof *k->batches);
    k->indexes = calloc((size_t)w->n_features, sizeof *k->indexes);
    k->n_lines = calloc((size_t)w->n_features, sizeof *k->n_lines);
    k->info = calloc((size_t)w->n_features, sizeof *k->info);
    for (int64_t f = 0; f < w->n_features; f++) {
        const workload_feature *from = &w->features[f];
        const int64_t n = w->n * from->hotness;
        uint32_t *number_of_id = calloc((size_t)from->n_rows, sizeof *number_of_id);
        for (int64_t b = 0; b < w->n_batches; b++)
            k->batches[b * w->n_features + f] = number_keys(from->ids + b * n, n, number_of_id);
        free(number_of_id);
        k->n_lines[f] = (uint64_t)((double)from->n_rows * room * index_bytes / LINE);
        k->indexes[f] = zeros((double)k->n_lines[f] * LINE);
        k->info[f] = zeros((double)from->n_rows * room * (double)info_bytes);
        most = n > most ? n : most;
    }
    k->line_numbers = calloc((size_t)most, sizeof *k->line_numbers);
    k->found = calloc((size_t)most, sizeof *k->found);
    k->out = calloc((size_t)most, sizeof *k->out);
    return k;
}

typedef struct find_task {
    key_finder *finder;
    int64_t feature;
    const feature_keys *batch;
} find_task;

static int64_t within(int64_t at, int64_t first, int64_t last) {
    return at < first ? first : at > last ? last : at;
}

/* Keys fetch their lines, those before them what is known of their rows, and those before these are found. */
static void find_part(void *context, size_t part, int thread) {
    (void)thread;
    const find_task *t = context;
    key_finder *k = t->finder;
    const char *index = k->indexes[t->feature];
    char *info = k->info[t->feature];
    const uint64_t n_lines = k->n_lines[t->feature];
    const size_t info_bytes = k->info_bytes, n_parts = (size_t)rk_parallel_threads();
    const int64_t first = rk_partition_begin(t->batch->n_unique, part, n_parts),
                  last = rk_partition_begin(t->batch->n_unique, part + 1, n_parts), ahead = k->ahead;
    for (int64_t at = first; at < last + 2 * ahead; at += ahead) {
        for (int64_t i = at; i < within(at + ahead, first, last); i++) {
            k->line_numbers[i] = (uint32_t)rk_hash_bucket(rk_key_hash(t->batch->keys[i]), n_lines);
            __builtin_prefetch(index + (size_t)k->line_numbers[i] * LINE, 0, 2);
        }
        for (int64_t i = within(at - ahead, first, last); i < within(at, first, last); i++) {
            int64_t zero;
            memcpy(&zero, index + (size_t)k->line_numbers[i] * LINE, sizeof zero);
            k->found[i] = t->batch->rows[i] + zero;
            __builtin_prefetch(info + (size_t)k->found[i] * info_bytes, 1, 2);
        }
        for (int64_t i = within(at - 2 * ahead, first, last); i < within(at - ahead, first, last); i++) {
            int32_t last_batch = 1;
            memcpy(info + (size_t)k->found[i] * info_bytes, &last_batch, sizeof last_batch);
        }
    }
}

static void write_rows_of_part(void *context, size_t part, int thread) {
    (void)thread;
    const find_task *t = context;
    const int64_t n = t->batch->n_uses, *found = t->finder->found;
    const size_t n_parts = (size_t)rk_parallel_threads();
    for (int64_t i = rk_partition_begin(n, part, n_parts); i < rk_partition_begin(n, part + 1, n_parts); i++)
        t->finder->out[i] = found[t->batch->numbers[i]];
}

double key_finder_find_batch(key_finder *k, int64_t b) {
    double begin = seconds_now();
    for (int64_t f = 0; f < k->w->n_features; f++) {
        find_task task = {k, f, &k->batches[b * k->w->n_features + f]};
        rk_parallel_for((size_t)rk_parallel_threads(), find_part, &task);
        rk_parallel_for((size_t)rk_parallel_threads(), write_rows_of_part, &task);
    }
    return seconds_now() - begin;
}

void key_finder_tune(key_finder *k) {
    char *swept = zeros(SWEPT);
    double least = 1e30;
    int64_t best = 0;
    for (size_t d = 0; d < sizeof distances / sizeof *distances; d++) {
        double seconds[TRIES];
        k->ahead = distances[d];
        for (int i = 0; i < TRIES; i++) {
            memset(swept, i, SWEPT); /* so that lines come from memory, as after a step */
            seconds[i] = key_finder_find_batch(k, 0);
        }
        qsort(seconds, TRIES, sizeof *seconds, ascending);
        if (seconds[TRIES / 2] >= least) continue;
        least = seconds[TRIES / 2];
        best = k->ahead;
    }
    k->ahead = best;
}
