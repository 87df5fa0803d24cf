#include <reckon/experimental/report.h>

#include <string.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/struct_size.h"
#include "report/report_page.h"

static rk_status write_page(const rk_report_run *runs, size_t n, const rk_report_options *options,
                            const char *path) {
    const char *split =
        !options->split || strcmp(options->split, "valid") == 0 ? "validation" : options->split;
    RK_AUTO(rk_buffer_release) rk_buffer page = {0};
    RK_TRY(rk_report_write_page(runs, n, split, options->n_features, &page));
    RK_TRY(page.status);
    return rk_file_write(path, page.data, page.n_bytes);
}

/* Of a/out and b/out the second goes by its path. */
static rk_status make_name_distinct(const char *directory, rk_report_run *runs, size_t r) {
    for (size_t before = 0; before < r; before++) {
        if (strcmp(runs[before].name, runs[r].name) != 0) continue;
        char *path;
        RK_TRY(rk_strdup(directory, &path));
        rk_free(runs[r].name);
        runs[r].name = path;
        break;
    }
    return RK_OK;
}

rk_status rk_report_write(const char *const *directories, size_t n, const rk_report_options *options,
                          const char *path) {
    rk_report_options o = RK_REPORT_OPTIONS_INIT;
    RK_TRY(rk_options_copy_in(&o, sizeof o, options, RK_SIZE_WITH(rk_report_options, device),
                              "rk_report_options"));
    RK_FAIL_IF(n == 0, RK_INVALID_ARGUMENT, "a report needs at least one run");
    RK_FAIL_IF(o.n_rows < 0 || o.n_features < 0 || o.n_repeats < 1, RK_INVALID_ARGUMENT,
               "rows and features must be 0 or more, repeats 1 or more");
    RK_AUTOFREE rk_report_run *runs = NULL;
    RK_TRY(rk_alloc(n, sizeof *runs, &runs));
    rk_status status = RK_OK;
    for (size_t r = 0; status == RK_OK && r < n; r++) {
        status = rk_report_run_open(directories[r], &o, &runs[r]);
        if (status == RK_OK) status = make_name_distinct(directories[r], runs, r);
    }
    if (status == RK_OK) status = write_page(runs, n, &o, path);
    for (size_t r = 0; r < n; r++) rk_report_run_release(&runs[r]);
    return status;
}
