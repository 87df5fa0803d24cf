/* W8 (b), storage: rows on a disk in a row log (src/embedding/tiered/), beside io_uring alone and RocksDB.
 *
 *     bench_rows_on_disk FOLDER [--rows 8000000] [--bytes 528] [--reads 200000] [--batch 8192] [--depth 128]
 *                               [--rounds 3] [--without rocksdb]
 *
 * All sides have the same records and read the same keys, in batches of different keys, from files that no
 * cache of the system holds (O_DIRECT); every record's key is compared. In each round each side has its turn
 * with each way to draw keys: uniform, and zipf (1.05, dealt to places at random). A change reads a batch and
 * writes it again. One line of JSON for each load, read and change; the folder is made, and removed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file/file.h"
#include "base/rng.h"
#include "rows_on_disk.h"
#include "workload.h"

enum { LOADED_AT_ONCE = 8192 };

typedef struct sizes {
    size_t n_keys, record_bytes, n_reads, batch, depth;
} sizes;

static void fill_record(const sizes *s, uint64_t key, uint32_t version, uint8_t *record) {
    memcpy(record, &key, sizeof key);
    memset(record + sizeof key, (int)(key * 7 + version), s->record_bytes - sizeof key);
}

static double load_all_rows(const disk_rows_ops *ops, disk_rows *rows, const sizes *s) {
    static uint64_t keys[LOADED_AT_ONCE];
    uint8_t *records = malloc(LOADED_AT_ONCE * s->record_bytes);
    double seconds = 0;
    for (size_t first = 0; first < s->n_keys; first += LOADED_AT_ONCE) {
        size_t n = s->n_keys - first < LOADED_AT_ONCE ? s->n_keys - first : LOADED_AT_ONCE;
        for (size_t i = 0; i < n; i++) {
            keys[i] = first + i;
            fill_record(s, keys[i], 0, records + i * s->record_bytes);
        }
        double begin = seconds_now();
        ops->put(rows, n, keys, records);
        seconds += seconds_now() - begin;
    }
    double begin = seconds_now();
    ops->loaded(rows);
    free(records);
    return seconds + seconds_now() - begin;
}

static int compare_keys(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Different keys, in no order. */
static void draw_batch(const sizes *s, int zipf, rk_rng *rng, uint64_t *keys) {
    size_t n = 0;
    while (n < s->batch) {
        while (n < s->batch) keys[n++] = zipf ? zipf_id(s->n_keys, rng) : rk_rng_below(rng, s->n_keys);
        qsort(keys, n, sizeof *keys, compare_keys);
        size_t left = 1;
        for (size_t i = 1; i < n; i++)
            if (keys[i] != keys[left - 1]) keys[left++] = keys[i];
        n = left;
    }
    for (size_t i = n; i > 1; i--) {
        size_t k = rk_rng_below(rng, i);
        uint64_t key = keys[i - 1];
        keys[i - 1] = keys[k];
        keys[k] = key;
    }
}

static void print_measurement(const char *side, const char *what, int round, size_t n, double seconds,
                              double cpu, double written) {
    printf(
        "{\"side\": \"%s\", \"what\": \"%s\", \"round\": %d, \"rows\": %zu, \"seconds\": %.6f, \"cpu\": "
        "%.6f, "
        "\"written_bytes\": %.0f}\n",
        side, what, round, n, seconds, cpu, written);
    fflush(stdout);
}

/* What reads draw, and the rounds' numbers. Each reader draws keys of its own (`reader`, of N_READERS): pages
 * that another has just read may be in a cache of the host's. */
enum { N_READERS = 4 };
typedef struct draw {
    int zipf, round, reader;
} draw;

static rk_rng rng_of_draw(draw d) {
    return (rk_rng){5, (uint64_t)((2 * d.round + d.zipf) * N_READERS + d.reader), 0};
}

static void time_row_reads(const disk_rows_ops *ops, disk_rows *rows, const sizes *s, draw d) {
    uint64_t *keys = malloc(s->batch * sizeof *keys);
    uint8_t *records = malloc(s->batch * s->record_bytes);
    rk_rng rng = rng_of_draw(d);
    double seconds = 0, cpu = 0;
    size_t n = 0;
    for (; n < s->n_reads; n += s->batch) {
        draw_batch(s, d.zipf, &rng, keys);
        double begin = seconds_now(), begin_cpu = cpu_seconds();
        ops->get(rows, s->batch, keys, records);
        seconds += seconds_now() - begin;
        cpu += cpu_seconds() - begin_cpu;
        for (size_t i = 0; i < s->batch; i++)
            if (memcmp(records + i * s->record_bytes, &keys[i], sizeof *keys) != 0)
                die("another row was read");
    }
    print_measurement(ops->name, d.zipf ? "read zipf" : "read uniform", d.round, n, seconds, cpu, -1);
    free(keys);
    free(records);
}

static void time_reads_by_uring_alone(const char *folder, const uint64_t *places, const sizes *s, draw d) {
    uint64_t *keys = malloc(s->batch * sizeof *keys), *wanted = NULL;
    rk_rng rng = rng_of_draw(d);
    size_t n = 0;
    for (; n < s->n_reads; n += s->batch) {
        wanted = realloc(wanted, (n + s->batch) * sizeof *wanted);
        draw_batch(s, d.zipf, &rng, keys);
        for (size_t i = 0; i < s->batch; i++) wanted[n + i] = places[keys[i]];
    }
    double begin_cpu = cpu_seconds(), seconds = read_by_uring_alone(folder, n, wanted, s->depth);
    print_measurement("io_uring alone", d.zipf ? "read zipf" : "read uniform", d.round, n, seconds,
                      cpu_seconds() - begin_cpu, -1);
    free(keys);
    free(wanted);
}

static void time_row_changes(const disk_rows_ops *ops, disk_rows *rows, const sizes *s, int round) {
    uint64_t *keys = malloc(s->batch * sizeof *keys);
    uint8_t *records = malloc(s->batch * s->record_bytes);
    rk_rng rng = {6, (uint64_t)round, 0};
    double seconds = 0, cpu = 0, before = ops->written_bytes(rows);
    size_t n = 0;
    for (; n < s->n_reads; n += s->batch) {
        draw_batch(s, 0, &rng, keys);
        double begin = seconds_now(), begin_cpu = cpu_seconds();
        ops->get(rows, s->batch, keys, records);
        for (size_t i = 0; i < s->batch; i++)
            fill_record(s, keys[i], (uint32_t)round + 1, records + i * s->record_bytes);
        ops->put(rows, s->batch, keys, records);
        seconds += seconds_now() - begin;
        cpu += cpu_seconds() - begin_cpu;
    }
    print_measurement(ops->name, "change uniform", round, n, seconds, cpu,
                      before < 0 ? -1 : ops->written_bytes(rows) - before);
    free(keys);
    free(records);
}

int main(int argc, char **argv) {
    if (argc < 2) die("usage: bench_rows_on_disk FOLDER [options]");
    sizes s = {.n_keys = (size_t)atoll(option(argc, argv, "--rows", "8000000")),
               .record_bytes = (size_t)atoll(option(argc, argv, "--bytes", "528")),
               .n_reads = (size_t)atoll(option(argc, argv, "--reads", "200000")),
               .batch = (size_t)atoll(option(argc, argv, "--batch", "8192")),
               .depth = (size_t)atoll(option(argc, argv, "--depth", "128"))};
    int rounds = atoi(option(argc, argv, "--rounds", "3")), n_sides = 0;
    const char *without = option(argc, argv, "--without", "");
    const disk_rows_ops *sides[2];
    disk_rows *rows[2];
    char folders[2][600];
    sides[n_sides++] = &rows_in_log;
    if (rows_in_rocksdb.open && strcmp(without, "rocksdb") != 0) sides[n_sides++] = &rows_in_rocksdb;
    if (s.batch > s.n_keys / 8) die("a batch has at most an eighth of all rows, as it has none twice");
    check(rk_make_directories(argv[1]));
    for (int i = 0; i < n_sides; i++) {
        snprintf(folders[i], sizeof folders[i], "%s/%d", argv[1], i);
        double cpu = cpu_seconds();
        rows[i] = sides[i]->open(folders[i], s.n_keys, s.record_bytes, s.depth);
        double seconds = load_all_rows(sides[i], rows[i], &s);
        print_measurement(sides[i]->name, "load", 0, s.n_keys, seconds, cpu_seconds() - cpu,
                          sides[i]->written_bytes(rows[i]));
    }
    for (int round = 0; round < rounds; round++)
        for (int zipf = 0; zipf < 2; zipf++) {
            time_reads_by_uring_alone(folders[0], places_of_log(rows[0]), &s, (draw){zipf, round, 0});
            for (int i = 0; i < n_sides; i++)
                time_row_reads(sides[i], rows[i], &s, (draw){zipf, round, 1 + i});
            if (n_sides > 1) time_row_reads(&rocksdb_alone, rows[1], &s, (draw){zipf, round, N_READERS - 1});
        }
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < n_sides; i++) time_row_changes(sides[i], rows[i], &s, round);
    for (int i = 0; i < n_sides; i++) sides[i]->close(rows[i]);
    check(rk_remove_tree(argv[1]));
    return 0;
}
