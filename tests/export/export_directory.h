/* A directory for a program's runs and exports, and what every export promises when it cannot be written. */
#ifndef RK_TESTS_EXPORT_DIRECTORY_H
#define RK_TESTS_EXPORT_DIRECTORY_H

#include "testing.h"

#include <reckon/export.h>

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

typedef rk_status export_function(const char *path, const rk_export_options *options, const char *directory);

/* Wherever the disk is full or memory is out, nothing is there afterwards, and nothing is kept. */
static inline void check_failures(export_function *export_run) {
    long live = rk_alloc_live();
    rk_status status = RK_IO;
    for (int64_t left = 0; status != RK_OK; left += 1500) {
        rk_file_fail_after(left);
        status = export_run(path_of("run"), NULL, path_of("full"));
        rk_file_fail_after(-1);
        assert_true(status == RK_OK || status == RK_IO);
        assert_int_equal(rk_file_exists(path_of("full")), status == RK_OK);
        assert_false(rk_file_exists(path_of("full.reckon-export")));
        assert_int_equal(rk_alloc_live(), live);
    }
    status = RK_NO_MEMORY;
    for (long countdown = 1; status != RK_OK; countdown++) {
        rk_alloc_fail_after(countdown, false);
        status = export_run(path_of("run"), NULL, path_of("out"));
        rk_alloc_fail_after(0, false);
        assert_int_equal(rk_file_exists(path_of("out")), status == RK_OK);
        assert_int_equal(rk_alloc_live(), live);
    }
}

#endif
