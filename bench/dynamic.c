/* W8 (a): a step on tables of keys against the same step on static tables of the same rows: lookup, backward
 * and update of a workload's batches.
 *
 *     bench_dynamic DIRECTORY [--optimizer rowwise_adagrad|adam] [--min_count 1] [--steps 20] [--threads 0]
 *
 * One line of JSON: seconds of each step of both and of the smallest loop that finds the batch's keys
 * (find_keys.h), which take turns in who goes first, after each row was used once; and the bytes that keys
 * take for each row beside its values. A key is a mix of its id's bits, and the outputs are compared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <reckon/reckon.h>

#include "embedding/local/collection_internal.h"
#include "find_keys.h"
#include "workload.h"

enum { FILLED_AT_ONCE = 65536 };
#define ROOM 1.1 /* rows that a table has room for, by those that it has */

typedef struct side {
    rk_embeddings *embeddings;
    rk_activation *activations;
    float *out;
    double *seconds;
    rk_ids *ids; /* [n_features] of the batch at hand */
    bool has_keys;
} side;

static void create_collection(const workload *w, const rk_optimizer *optimizer, int64_t min_count, side *s) {
    const rk_initializer constant = {.kind = RK_INIT_CONSTANT, .value = 0.01};
    rk_table_config *tables = calloc((size_t)w->n_features, sizeof *tables);
    rk_feature_config *features = calloc((size_t)w->n_features, sizeof *features);
    rk_table_part *parts = calloc((size_t)w->n_features, sizeof *parts);
    rk_dynamic_config *dynamic = calloc((size_t)w->n_features, sizeof *dynamic);
    for (int64_t f = 0; f < w->n_features; f++) {
        const workload_feature *from = &w->features[f];
        tables[f] = (rk_table_config)RK_TABLE_CONFIG_INIT;
        tables[f].name = from->name;
        tables[f].n_rows = from->n_rows;
        tables[f].dim = (int32_t)from->dim;
        tables[f].initializer = constant;
        features[f] = (rk_feature_config)RK_FEATURE_CONFIG_INIT;
        features[f].name = features[f].table = from->name;
        features[f].combiner = RK_COMBINER_SUM;
        int64_t capacity = (int64_t)((double)from->n_rows * ROOM);
        dynamic[f] = (rk_dynamic_config){.max_capacity = capacity,
                                         .n_buckets = capacity / RK_BUCKET_ROWS + 1,
                                         .evict_to = 1,
                                         .min_count = min_count,
                                         .probability = 1};
        parts[f] = (rk_table_part){.n_rows = from->n_rows, .dim = (int32_t)from->dim};
        if (!s->has_keys) continue;
        parts[f].dynamic = &dynamic[f];
        tables[f].n_rows = parts[f].n_rows = capacity;
    }
    rk_embeddings_config config = RK_EMBEDDINGS_CONFIG_INIT;
    config.tables = tables;
    config.features = features;
    config.n_tables = config.n_features = (int32_t)w->n_features;
    config.optimizer = optimizer;
    check(rk_embeddings_create_with_parts(&config, parts, &s->embeddings));
    free(tables);
    free(features);
    free(parts);
    free(dynamic);
}

static int64_t key_of_id(int64_t id) {
    return (int64_t)((uint64_t)id * 0x9E3779B97F4A7C15u);
}

static void run_step(const side *s, int64_t n, const rk_ids *ids, const rk_activation *gradients) {
    check(rk_embeddings_dedup(s->embeddings, n, ids, true));
    rk_embeddings_lookup_all(s->embeddings, true, s->activations);
    if (!gradients) return;
    check(rk_embeddings_begin_update(s->embeddings, gradients, true));
    rk_embeddings_update_all(s->embeddings);
}

/* Each row is looked up once: a table's pages are there, and all keys have rows. */
static void fill_rows(const workload *w, const side *s) {
    rk_ids *ids = calloc((size_t)w->n_features, sizeof *ids);
    int64_t *values = calloc(FILLED_AT_ONCE, sizeof *values), most = 0,
            at_once = w->n < FILLED_AT_ONCE ? w->n : FILLED_AT_ONCE; /* there is room for w->n outputs */
    for (int64_t f = 0; f < w->n_features; f++)
        most = w->features[f].n_rows > most ? w->features[f].n_rows : most;
    for (int64_t first = 0; first < most; first += at_once)
        for (int64_t f = 0; f < w->n_features; f++) {
            int64_t n = w->features[f].n_rows - first < at_once ? w->features[f].n_rows - first : at_once;
            static const int64_t no_offsets[FILLED_AT_ONCE + 1];
            for (int64_t i = 0; i < n; i++) values[i] = s->has_keys ? key_of_id(first + i) : first + i;
            for (int64_t k = 0; k < w->n_features; k++)
                ids[k] = k == f ? (rk_ids){NULL, 1, values, NULL} : (rk_ids){no_offsets, 0, values, NULL};
            if (n > 0) run_step(s, n, ids, NULL);
        }
    free(ids);
    free(values);
}

/* What keys take for a row of the capacity, by the sizes of their arrays: the rows' keys, last batches and
 * counts, and the index. No key was given up for another. */
static double measure_key_bytes(const side *s) {
    double bytes = 0, n_rows = 0;
    for (int32_t t = 0; t < s->embeddings->n_tables; t++) {
        const rk_dynamic_table *d = s->embeddings->tables[t].dynamic;
        for (int64_t b = 0; b < d->config.n_buckets; b++)
            bytes += (double)d->buckets[b].n_lines * sizeof *d->buckets[b].lines + sizeof d->buckets[b];
        bytes += (double)d->info_bytes;
        n_rows += (double)d->config.max_capacity;
        if (d->totals.n_evicted) die("a bucket was too small for its keys");
    }
    return bytes / n_rows;
}

static rk_ids *map_ids_to_keys(const workload *w) {
    rk_ids *keys = calloc((size_t)(w->n_batches * w->n_features), sizeof *keys);
    for (int64_t b = 0; b < w->n_batches; b++) {
        rk_ids *ids = keys + b * w->n_features;
        (void)workload_batch(w, b, ids);
        for (int64_t f = 0; f < w->n_features; f++) {
            int64_t n = w->n * w->features[f].hotness, *values = calloc((size_t)n, sizeof *values);
            for (int64_t i = 0; i < n; i++) values[i] = key_of_id(ids[f].ids[i]);
            ids[f].ids = values; /* for good */
        }
    }
    return keys;
}

int main(int argc, char **argv) {
    if (argc < 2) die("usage: bench_dynamic DIRECTORY [options]");
    workload w;
    workload_load(argv[1], &w);
    int64_t steps = atoll(option(argc, argv, "--steps", "20")), width = workload_width(&w);
    check(rk_set_threads(atoi(option(argc, argv, "--threads", "0"))));
    rk_optimizer optimizer;
    check(rk_optimizer_init(&optimizer, strcmp(option(argc, argv, "--optimizer", ""), "adam") == 0
                                            ? RK_OPTIMIZER_ADAM
                                            : RK_OPTIMIZER_ROWWISE_ADAGRAD));
    float *gradient = load_array(argv[1], "gradient", ".f32", w.n * width * 4);
    if (!gradient) die("no gradient.f32");
    rk_activation *gradients = workload_columns(&w, gradient, width);
    rk_ids *keys = map_ids_to_keys(&w);
    side sides[2] = {{.ids = calloc((size_t)w.n_features, sizeof(rk_ids))}, {.has_keys = true}};
    for (int i = 0; i < 2; i++) {
        sides[i].out = huge_floats(w.n * width, 0);
        sides[i].activations = workload_columns(&w, sides[i].out, width);
        sides[i].seconds = calloc((size_t)steps, sizeof(double));
        create_collection(&w, &optimizer, atoll(option(argc, argv, "--min_count", "1")), &sides[i]);
        fill_rows(&w, &sides[i]);
    }
    const double key_bytes = measure_key_bytes(&sides[1]);
    key_finder *finder = key_finder_of(&w, ROOM, key_bytes - sizeof(rk_key_info), sizeof(rk_key_info));
    double *find_seconds = calloc((size_t)steps, sizeof *find_seconds);
    key_finder_tune(finder);
    for (int64_t s = -2; s < steps; s++) {
        int64_t b = (s + 2) % w.n_batches;
        (void)workload_batch(&w, b, sides[0].ids);
        sides[1].ids = keys + b * w.n_features;
        for (int64_t k = 0; k < 3; k++) {
            int64_t turn = (s + (s % 2 ? 2 + k : 4 - k)) % 3; /* each follows each of the others as often */
            double begin = seconds_now(), *seconds = turn < 2 ? sides[turn].seconds : find_seconds;
            if (turn < 2)
                run_step(&sides[turn], w.n, sides[turn].ids, gradients);
            else
                key_finder_find_batch(finder, b);
            if (s >= 0) seconds[s] = seconds_now() - begin;
        }
        if (memcmp(sides[0].out, sides[1].out, (size_t)(w.n * width) * sizeof(float)) != 0)
            die("the tables' outputs differ");
    }
    printf("{");
    print_seconds("static", sides[0].seconds, steps);
    print_seconds("dynamic", sides[1].seconds, steps);
    print_seconds("find", find_seconds, steps);
    printf("\"key_bytes\": %.2f, \"peak_bytes\": %lld, \"isa\": \"%s\", \"threads\": %d}\n", key_bytes,
           (long long)peak_bytes(), rk_runtime_isa(), rk_threads());
    return 0;
}
