/* W8 (b): a step on a dynamic table of which a share of the rows has memory and the others are on a disk,
 * against the same step where all are in memory: lookup, backward and update (rowwise Adagrad) of a batch of
 * zipf(1.05) keys that is drawn anew for each step.
 *
 *     bench_beyond_memory FOLDER [--rows 1000000] [--dim 128] [--batch 8192] [--hotness 10]
 *                         [--shares 0.05,0.1,0.25] [--steps 20] [--warm 20] [--beside_ms 0] [--threads 0]
 *
 * All sides are in this process and take turns, a step each. A step with a disk also reads ahead for the next
 * one, and ends when that is done, so that no side reads while another has its turn. beside_ms: between
 * lookup and update each side computes as long as a dense part would. Every row was used once before, and
 * `warm` steps go before the measured ones. The sides' outputs are compared to the bit. A line of JSON a
 * side; the folder is made, and removed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <reckon/reckon.h>

#include "base/file/file.h"
#include "base/rng.h"
#include "embedding/local/collection_internal.h"
#include "workload.h"

enum { MOST_SIDES = 8 };

typedef struct sizes {
    int64_t n_rows, dim, n, hotness, steps, warm;
    double beside_loops;
} sizes;

typedef struct side {
    double share; /* of the rows that there is memory for; 1: no disk */
    char folder[600];
    rk_embeddings *embeddings;
    float *out;
    double *seconds;
    int64_t n_stored, n_ahead; /* rows that were read from the disk in measured steps, and those of them that
                                  were read before their step */
} side;

static void create_collection(const sizes *s, side *to) {
    rk_optimizer optimizer;
    check(rk_optimizer_init(&optimizer, RK_OPTIMIZER_ROWWISE_ADAGRAD));
    int64_t capacity = s->n_rows + s->n_rows / 10;
    uint64_t row_bytes = (uint64_t)s->dim * 4 + 4 + RK_TIER_PLACE_BYTES;
    rk_dynamic_config dynamic = {.max_capacity = capacity,
                                 .n_buckets = capacity / RK_BUCKET_ROWS + 1,
                                 .evict_to = 1,
                                 .min_count = 1,
                                 .probability = 1};
    if (to->share < 1) {
        dynamic.storage = to->folder;
        dynamic.memory_bytes = (uint64_t)(to->share * (double)s->n_rows * (double)row_bytes);
    }
    rk_table_config table = RK_TABLE_CONFIG_INIT;
    table.name = "item";
    table.n_rows = capacity;
    table.dim = (int32_t)s->dim;
    table.initializer = (rk_initializer){.kind = RK_INIT_CONSTANT, .value = 0.01};
    rk_feature_config feature = RK_FEATURE_CONFIG_INIT;
    feature.name = feature.table = "item";
    feature.combiner = RK_COMBINER_SUM;
    rk_table_part part = {.n_rows = capacity, .dim = (int32_t)s->dim, .dynamic = &dynamic};
    rk_embeddings_config config = RK_EMBEDDINGS_CONFIG_INIT;
    config.tables = &table;
    config.features = &feature;
    config.n_tables = config.n_features = 1;
    config.optimizer = &optimizer;
    check(rk_embeddings_create_with_parts(&config, &part, &to->embeddings));
    to->out = huge_floats(s->n * s->dim, 0);
    to->seconds = calloc((size_t)s->steps, sizeof *to->seconds);
}

static int64_t key_of_id(uint64_t id) {
    return (int64_t)(id * 0x9E3779B97F4A7C15u);
}

static void draw_batch_keys(const sizes *s, int64_t step, int64_t *keys) {
    rk_rng rng = {7, (uint64_t)(step + s->warm), 0};
    for (int64_t i = 0; i < s->n * s->hotness; i++) keys[i] = key_of_id(zipf_id((uint64_t)s->n_rows, &rng));
}

/* Some arithmetic that no compiler leaves out. */
static void burn_cpu(double loops) {
    volatile double sum = 1;
    for (double i = 0; i < loops; i++) sum = sum * 0.999999 + 1e-6;
}

static double loops_for_milliseconds(double ms) {
    enum { PROBED = 10000000 };
    double begin = seconds_now();
    burn_cpu(PROBED);
    return ms * 1e-3 * PROBED / (seconds_now() - begin);
}

static rk_ids ids_of_keys(const sizes *s, const int64_t *keys) {
    return (rk_ids){NULL, s->hotness, keys, NULL};
}

static void count_disk_reads(side *now) {
    const rk_disk_row_cache *t = now->embeddings->tables[0].tier;
    now->n_stored += t->n_stored;
    now->n_ahead += t->n_stored - t->n_read;
}

static double run_step(const sizes *s, side *now, const int64_t *keys, const int64_t *next, bool is_counted) {
    rk_ids ids = ids_of_keys(s, keys), ids_next = ids_of_keys(s, next);
    rk_activation activation = {now->out, s->dim, NULL};
    rk_disk_row_cache *tier = now->embeddings->tables[0].tier;
    double begin = seconds_now();
    rk_embeddings_prefetch(now->embeddings, 0, s->n, &ids_next);
    check(rk_embeddings_dedup(now->embeddings, s->n, &ids, true));
    if (tier && is_counted) count_disk_reads(now);
    rk_embeddings_lookup_all(now->embeddings, true, &activation);
    burn_cpu(s->beside_loops);
    check(rk_embeddings_begin_update(now->embeddings, &activation, true));
    rk_embeddings_update_all(now->embeddings);
    if (tier) rk_disk_row_cache_finish_background(tier);
    return seconds_now() - begin;
}

static void fill_rows(const sizes *s, side *now) {
    int64_t *keys = calloc((size_t)s->n, sizeof *keys);
    for (int64_t first = 0; first < s->n_rows; first += s->n) {
        int64_t n = s->n_rows - first < s->n ? s->n_rows - first : s->n;
        for (int64_t i = 0; i < n; i++) keys[i] = key_of_id((uint64_t)(first + i));
        rk_ids ids = {NULL, 1, keys, NULL};
        check(rk_embeddings_dedup(now->embeddings, n, &ids, true));
    }
    free(keys);
}

static void print_results(const sizes *s, const side *now) {
    const rk_disk_row_cache *t = now->embeddings->tables[0].tier;
    double steps = (double)s->steps;
    printf("{\"share\": %g, ", now->share);
    print_seconds("seconds", now->seconds, s->steps);
    printf("\"rows_read\": %.1f, \"read_ahead\": %.1f, \"written_bytes\": %.0f, \"places\": %lld}\n",
           (double)now->n_stored / steps, (double)now->n_ahead / steps,
           t ? (double)rk_row_log_read_counts(t->log).n_written_bytes : 0, (long long)(t ? t->n_places : 0));
}

static int parse_sides(const sizes *s, const char *folder, const char *shares, side *sides) {
    int n = 1;
    sides[0].share = 1;
    for (const char *at = shares; *at && n < MOST_SIDES; n++) {
        char *end;
        sides[n].share = strtod(at, &end);
        if (end == at || sides[n].share <= 0 || sides[n].share >= 1) die("--shares: between 0 and 1");
        snprintf(sides[n].folder, sizeof sides[n].folder, "%s/%d", folder, n);
        at = *end == ',' ? end + 1 : end;
    }
    for (int i = 0; i < n; i++) {
        create_collection(s, &sides[i]);
        fill_rows(s, &sides[i]);
    }
    return n;
}

int main(int argc, char **argv) {
    if (argc < 2) die("usage: bench_beyond_memory FOLDER [options]");
    sizes s = {.n_rows = atoll(option(argc, argv, "--rows", "1000000")),
               .dim = atoll(option(argc, argv, "--dim", "128")),
               .n = atoll(option(argc, argv, "--batch", "8192")),
               .hotness = atoll(option(argc, argv, "--hotness", "10")),
               .steps = atoll(option(argc, argv, "--steps", "20")),
               .warm = atoll(option(argc, argv, "--warm", "20"))};
    s.beside_loops = loops_for_milliseconds(atof(option(argc, argv, "--beside_ms", "0")));
    check(rk_set_threads(atoi(option(argc, argv, "--threads", "0"))));
    check(rk_make_directories(argv[1]));
    static side sides[MOST_SIDES];
    int n_sides = parse_sides(&s, argv[1], option(argc, argv, "--shares", "0.05,0.1,0.25"), sides);
    int64_t *keys = calloc((size_t)(s.n * s.hotness), sizeof *keys),
            *next = calloc((size_t)(s.n * s.hotness), sizeof *keys);
    draw_batch_keys(&s, -s.warm, next);
    for (int64_t at = -s.warm; at < s.steps; at++) {
        int64_t *taken = keys;
        keys = next;
        next = taken;
        draw_batch_keys(&s, at + 1, next);
        for (int k = 0; k < n_sides; k++) {
            side *now = &sides[(at + s.warm + k) % n_sides];
            double seconds = run_step(&s, now, keys, next, at >= 0);
            if (at >= 0) now->seconds[at] = seconds;
        }
        for (int k = 1; k < n_sides; k++)
            if (memcmp(sides[0].out, sides[k].out, (size_t)(s.n * s.dim) * sizeof(float)) != 0)
                die("the sides' outputs differ");
    }
    for (int k = 0; k < n_sides; k++) print_results(&s, &sides[k]);
    for (int k = 0; k < n_sides; k++) rk_embeddings_free(sides[k].embeddings);
    check(rk_remove_tree(argv[1]));
    return 0;
}
