/* A run's log: read for a report, cut at any place, and read again. The first eight bytes say where. */
#include <string.h>

#include "base/file/file.h"
#include "fuzz/scratch.h"
#include "report/run_metrics_log.h"
#include "train/run/run_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void read_log(void) {
    rk_run_metrics_log record;
    if (rk_run_metrics_log_read(scratch_folder(), &record) == RK_OK) rk_run_metrics_log_release(&record);
}

static int64_t size_of(const char *name) {
    char path[300];
    uint64_t n;
    snprintf(path, sizeof path, "%s/%s", scratch_folder(), name);
    if (rk_file_size(path, &n) != RK_OK) abort();
    return (int64_t)n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    static const char lines[] = "metrics.jsonl", events[] = "events.out.tfevents.reckon";
    int64_t keep;
    if (n_bytes < sizeof keep) return 0;
    memcpy(&keep, data, sizeof keep);
    keep &= (1LL << 50) - 1;
    int64_t n = (int64_t)(n_bytes - sizeof keep);
    scratch_file(lines, data + sizeof keep, (size_t)n);
    scratch_file(events, data + sizeof keep, (size_t)n);
    read_log();
    rk_run_log log;
    if (rk_run_log_open(scratch_folder(), true, keep, keep, &log) != RK_OK) abort();
    rk_run_log_release(&log);
    if (size_of(lines) > n || size_of(lines) > keep) abort();
    read_log();
    return 0;
}
