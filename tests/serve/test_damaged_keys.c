/* Checkpoints of a dynamic table whose tensors are missing, or empty, with checksums that fit: none is taken
 * for a table without keys. */
#include "testing.h"

#include <inttypes.h>
#include <unistd.h>

#include <reckon/reckon.h>

#include "base/file/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "format/safetensors.h"

static char directory[] = "/tmp/reckon-keys-XXXXXX";
static const char *const run_file =
    "data: {train: data.csv, valid: data.csv, shuffle: false, labels: [{name: y}], features: [{name: k, key: "
    "true}]}\n"
    "embedding: {dim: 2, tables: [{name: k, max_capacity: 20, admission: {min_count: 2, counter: %s}}]}\n"
    "model: {kind: dnn, deep: [2]}\ntrain: {batch_size: 10, epochs: 1, keep_best: false, output: %s/run}\n";

static rk_status train(const char *counter, bool resume) {
    rk_trainer_options options = RK_TRAINER_OPTIONS_INIT;
    char text[900], path[300], rows[2000] = "k,y\n";
    rk_config *config;
    rk_trainer *trainer;
    options.resume = resume;
    options.overwrite = !resume;
    for (int i = 0; i < 60; i++) sprintf(rows + strlen(rows), "%d,%d\n", i * i % 31, i % 2);
    snprintf(path, sizeof path, "%s/data.csv", directory);
    if (!resume) OK(rk_file_write(path, rows, strlen(rows)));
    snprintf(text, sizeof text, run_file, counter, directory);
    OK(rk_config_parse(text, "run.yaml", directory, NULL, 0, &config));
    rk_status status = rk_trainer_create(config, &options, &trainer);
    if (status == RK_OK) {
        status = rk_trainer_run(trainer);
        rk_trainer_free(trainer);
    }
    rk_config_free(config);
    return status;
}

/* The manifest says what the file is now. */
static void write_manifest(const char *checkpoint, uint32_t crc, uint64_t n_bytes) {
    char path[600], *manifest, *text;
    size_t n;
    unsigned long long stored;
    snprintf(path, sizeof path, "%s/manifest.json", checkpoint);
    OK(rk_file_read(path, &manifest, &n));
    char *file = strstr(manifest, "\"model-00001.safetensors\""), *bytes, *at;
    assert_non_null(file);
    *strstr(file, "\ncrc32c ") = 0;
    bytes = strstr(file, "\"bytes\"");
    at = strstr(file, "\"crc32c\"");
    assert_true(bytes && at && bytes < at);
    bytes += strcspn(bytes, "0123456789");
    at += strcspn(at + 8, "0123456789") + 8;
    char *bytes_end, *end;
    stored = strtoull(bytes, &bytes_end, 10);
    assert_true(stored > 0);
    (void)!strtoull(at, &end, 10);
    assert_true(asprintf(&text, "%.*s%" PRIu64 "%.*s%" PRIu32 "%s", (int)(bytes - manifest), manifest,
                         n_bytes, (int)(at - bytes_end), bytes_end, crc, end) > 0);
    rk_free(manifest);
    assert_true(asprintf(&manifest, "%s\ncrc32c %08" PRIx32 "\n", text, rk_crc32c(0, text, strlen(text))) >
                0);
    OK(rk_file_write(path, manifest, strlen(manifest)));
    free(text);
    free(manifest);
}

/* Tensors whose names have `part` in them are left out, or have no elements. */
static int damage(const char *checkpoint, const char *const *parts, bool empties) {
    char path[600], *data;
    size_t n;
    uint32_t crc;
    uint64_t n_bytes;
    int n_damaged = 0;
    rk_safetensors tensors = {0};
    rk_state_dict state = {0};
    snprintf(path, sizeof path, "%s/model-00001.safetensors", checkpoint);
    OK(rk_file_read(path, &data, &n));
    OK(rk_safetensors_parse(data, n, n, &tensors));
    for (size_t i = 0; i < tensors.n; i++) {
        const rk_safetensors_entry *e = &tensors.entries[i];
        bool is_meant = false;
        for (const char *const *part = parts; *part; part++) is_meant |= strstr(e->name, *part) != NULL;
        n_damaged += is_meant;
        if (is_meant && !empties) continue;
        OK(rk_state_dict_add(&state, e->name, e->type, is_meant ? 0 : e->dims[0],
                             e->n_dims > 1 ? e->dims[1] : 0, data + e->begin));
    }
    OK(rk_safetensors_write(path, &state, &crc, &n_bytes));
    write_manifest(checkpoint, crc, n_bytes);
    rk_state_dict_release(&state);
    rk_safetensors_release(&tensors);
    rk_free(data);
    return n_damaged;
}

static void check_refused(const char *counter, const char *const *parts, bool empties, int n_tensors) {
    char run[300], *checkpoint;
    rk_predictor *predictor;
    OK(train(counter, false));
    snprintf(run, sizeof run, "%s/run", directory);
    OK(rk_checkpoint_find(run, &checkpoint));
    assert_int_equal(damage(checkpoint, parts, empties), n_tensors);
    OK(rk_checkpoint_verify(checkpoint));
    rk_free(checkpoint);
    rk_status status = train(counter, true);
    if (status != RK_CONFIG && status != RK_BAD_DATA)
        fail_msg("'%s' %s: resumed with status %d", parts[0], empties ? "emptied" : "left out", (int)status);
    if (strcmp(parts[0], "/count_min_") == 0 || strstr(parts[0], "candidate") || strstr(parts[0], "rows/"))
        return;
    assert_int_not_equal(rk_predictor_open(run, NULL, &predictor), RK_OK);
}

static void test_each_tensor(void **state) {
    (void)state;
    static const char *const names[] = {"/keys",    "/rows",   "/last_batches", "/counts",
                                        "/batches", "/totals", "/step"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[40];
        snprintf(name, sizeof name, "table/k%s", names[i]);
        for (int empties = 0; empties < 2; empties++)
            check_refused("exact", (const char *const[]){name, NULL}, empties, 1);
    }
    for (int empties = 0; empties < 2; empties++)
        check_refused("count_min", (const char *const[]){"/count_min_", NULL}, empties, 2);
    check_refused("exact", (const char *const[]){"/candidate_", NULL}, false, 2);
}

/* All that has a row for each key, together: shapes that fit. */
static void test_whole_tables(void **state) {
    (void)state;
    static const char *const each_key[] = {"table/k/keys",         "table/k/rows",   "table/k/m", "table/k/v",
                                           "table/k/last_batches", "table/k/counts", NULL};
    static const char *const all[] = {"table/k/", NULL};
    check_refused("exact", each_key, true, 6);
    check_refused("exact", each_key, false, 6);
    check_refused("bloom", all, false, 11);
}

static int set_up(void **state) {
    (void)state;
    return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    return rk_remove_tree(directory) == RK_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_tensor),
                                       cmocka_unit_test(test_whole_tables)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
