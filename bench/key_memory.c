/* What keys take of memory for each row of a dynamic table, beside the row itself.
 *
 *     bench_key_memory [--rows 20000000] [--tier ssd|memory] [--buckets 0] [--batch 8192]
 *
 * A table is given a quarter more keys than it has rows, in batches, and evicts the others (lru).
 * One line of JSON: bytes a row by the sizes of the arrays, and by what the process took of memory since the
 * table was made, in the end and at most. No rows are made: of a table with rows on a disk this is all that
 * memory has of those that are there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <reckon/reckon.h>

#include "embedding/dynamic/dynamic_table.h"
#include "workload.h"

static double resident_bytes(void) {
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &pages, &resident) != 2) die("no /proc/self/statm");
    fclose(file);
    return (double)resident * 4096;
}

static void run_batch(rk_dynamic_table *t, int64_t first, int64_t n, int64_t *keys) {
    rk_key_uses uses = {.keys = keys, .rows = keys, .n = n};
    int64_t n_places;
    for (int64_t i = 0; i < n; i++) keys[i] = (int64_t)((uint64_t)(first + i) * 0x9E3779B97F4A7C15u);
    check(rk_dynamic_begin_batch(t, &uses, 1, RK_NO_TIMESTAMP));
    for (size_t c = 0; c < t->n_chunks; c++) rk_dynamic_find_rows_of_chunk(t, c);
    for (size_t g = 0; g < t->n_groups; g++) check(rk_dynamic_decide_admissions(t, g));
    check(rk_dynamic_reserve_new_rows(t, &n_places));
    if (n_places > t->n_places) check(rk_dynamic_grow_rows(t, n_places));
    for (size_t c = 0; c < t->n_chunks; c++) rk_dynamic_count_uses_of_chunk(t, c);
    for (size_t g = 0; g < t->n_groups; g++) rk_dynamic_apply_admissions(t, g);
    rk_dynamic_end_batch(t);
}

static double bytes_of_arrays(const rk_dynamic_table *t) {
    double bytes = (double)t->info_bytes;
    for (int64_t b = 0; b < t->config.n_buckets; b++) {
        bytes += (double)t->buckets[b].n_lines * sizeof *t->buckets[b].lines + sizeof t->buckets[b];
        if (t->disk_keys)
            bytes += t->disk_keys[b].n_blocks * (double)sizeof(uint32_t) + sizeof t->disk_keys[b];
    }
    return bytes + (t->pool ? (double)rk_disk_key_pool_bytes(t->pool) : 0);
}

int main(int argc, char **argv) {
    int64_t n_rows = atoll(option(argc, argv, "--rows", "20000000")),
            batch = atoll(option(argc, argv, "--batch", "8192")), *keys = calloc((size_t)batch, sizeof *keys);
    bool on_disk = strcmp(option(argc, argv, "--tier", "ssd"), "ssd") == 0;
    rk_dynamic_config config = {
        .max_capacity = n_rows,
        .n_buckets = rk_dynamic_choose_buckets(n_rows, atoll(option(argc, argv, "--buckets", "0"))),
        .evict_to = 0.95,
        .min_count = 1,
        .probability = 1,
        .storage = on_disk ? "nowhere" : NULL};
    rk_dynamic_table *t;
    double before = resident_bytes(), most = 0;
    check(rk_dynamic_create(&config, 1, 1, &t));
    double began = seconds_now();
    for (int64_t first = 0; first < n_rows + n_rows / 4; first += batch) {
        run_batch(t, first, batch, keys);
        double now = resident_bytes() - before;
        if (now > most) most = now;
    }
    printf(
        "{\"rows\": %lld, \"buckets\": %lld, \"keys\": %lld, \"array_bytes\": %.2f, \"resident_bytes\": "
        "%.2f, "
        "\"most_resident_bytes\": %.2f, \"stated_bytes\": %d, \"seconds\": %.1f}\n",
        (long long)n_rows, (long long)config.n_buckets, (long long)t->n_keys,
        bytes_of_arrays(t) / (double)n_rows, (resident_bytes() - before) / (double)n_rows,
        most / (double)n_rows, rk_dynamic_key_bytes(&config), seconds_now() - began);
    rk_dynamic_free(t);
    free(keys);
    return 0;
}
