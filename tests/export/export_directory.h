/* A directory for a program's runs and exports, a run, and what every export promises when it cannot be
 * written. */
#ifndef RK_TESTS_EXPORT_DIRECTORY_H
#define RK_TESTS_EXPORT_DIRECTORY_H

#include "testing.h"

#include <reckon/export.h>
#include <reckon/trainer.h>

#include "base/file/file.h"
#include "base/memory.h"

static char directory[] = "/tmp/reckon-export-XXXXXX";

static inline char *path_of(const char *name) {
    static char paths[4][400];
    static int at;
    char *path = paths[at++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

/* "run": tables of f32 and of bf16, statistics, slots. */
static inline void make_usual_run(void) {
    static const char *const run =
        "data: {train: data.csv, valid: data.csv, labels: [{name: y}], features: [{name: w, identity: 100}, "
        "{name: v, identity: 70}, {name: x, dense: true}]}\n"
        "embedding: {dim: 12, tables: [{name: v, dtype: bf16}], optimizer: {kind: adam}}\n"
        "model: {kind: dcn_v2, deep: [8], batch_norm: true}\n"
        "train: {batch_size: 10, epochs: 1, optimizer: {kind: adam}, output: %s/run}\n";
    char text[800], rows[4000] = "w,v,x,y\n";
    rk_config *config;
    rk_trainer *trainer;
    for (int i = 0; i < 100; i++) sprintf(rows + strlen(rows), "%d,%d,%d.5,%d\n", i, i % 70, i % 3, i % 2);
    OK(rk_file_write(path_of("data.csv"), rows, strlen(rows)));
    snprintf(text, sizeof text, run, directory);
    OK(rk_config_parse(text, "run.yaml", directory, NULL, 0, &config));
    OK(rk_trainer_create(config, NULL, &trainer));
    OK(rk_trainer_run(trainer));
    rk_trainer_free(trainer);
    rk_config_free(config);
}

typedef rk_status export_function(const char *path, const rk_export_options *options, const char *directory);

/* Wherever the disk is full or memory is out, nothing is there afterwards, and nothing is kept. */
static inline void check_failures(export_function *export_run, const char *run) {
    long live = rk_alloc_live();
    rk_status status = RK_IO;
    for (int64_t left = 0; status != RK_OK; left += 1500) {
        rk_file_fail_after(left);
        status = export_run(path_of(run), NULL, path_of("full"));
        rk_file_fail_after(-1);
        assert_true(status == RK_OK || status == RK_IO);
        assert_int_equal(rk_file_exists(path_of("full")), status == RK_OK);
        assert_false(rk_file_exists(path_of("full.reckon-export")));
        assert_int_equal(rk_alloc_live(), live);
    }
    status = RK_NO_MEMORY;
    for (long countdown = 1; status != RK_OK; countdown++) {
        rk_alloc_fail_after(countdown, false);
        status = export_run(path_of(run), NULL, path_of("out"));
        rk_alloc_fail_after(0, false);
        assert_int_equal(rk_file_exists(path_of("out")), status == RK_OK);
        assert_int_equal(rk_alloc_live(), live);
    }
    OK(rk_remove_tree(path_of("full")));
    OK(rk_remove_tree(path_of("out")));
}

#endif
