/* Whatever a run's names, settings and log hold, its page is well-formed and has no script. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "report/html_check.h"
#include "report/report_page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* The next piece of the input, up to a NUL. */
static char *piece(const char **at, const char *end) {
    char *text;
    size_t n = strnlen(*at, (size_t)(end - *at));
    if (rk_strndup(*at, n, &text) != RK_OK) abort();
    *at += n + (*at + n < end);
    return text;
}

static void fill(rk_report_run *run, const char **at, const char *end) {
    run->name = piece(at, end);
    run->n_rows = 3;
    if (rk_alloc(1, sizeof *run->tasks, &run->tasks) != RK_OK) abort();
    run->n_tasks = 1;
    run->tasks[0] = (rk_report_task){.name = piece(at, end), .binary = true};
    if (rk_alloc(2, sizeof *run->settings.list, &run->settings.list) != RK_OK) abort();
    for (run->settings.n = 0; run->settings.n < 2; run->settings.n++)
        run->settings.list[run->settings.n] = (rk_setting){piece(at, end), piece(at, end)};
    if (rk_alloc(1, sizeof *run->importance.names, &run->importance.names) != RK_OK ||
        rk_alloc(3, sizeof(double), &run->importance.mean) != RK_OK)
        abort();
    if (rk_alloc(1, sizeof(double), &run->importance.low) != RK_OK ||
        rk_alloc(1, sizeof(double), &run->importance.high) != RK_OK)
        abort();
    run->importance.names[0] = piece(at, end);
    run->importance.n_features = run->importance.n_tasks = 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    const char *at = (const char *)data, *end = at + n_bytes;
    rk_report_run runs[2] = {0};
    rk_buffer page = {0};
    for (int i = 0; i < 2; i++) fill(&runs[i], &at, end);
    char *split = piece(&at, end);
    if (rk_report_write_page(runs, 2, split, 5, &page) != RK_OK) abort();
    const char *wrong = html_check(page.data, page.n_bytes);
    if (wrong) {
        fprintf(stderr, "%s\n", wrong);
        abort();
    }
    rk_free(split);
    rk_buffer_release(&page);
    for (int i = 0; i < 2; i++) rk_report_run_release(&runs[i]);
    return 0;
}
