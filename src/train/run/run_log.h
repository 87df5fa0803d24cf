/* The run's own record: metrics.jsonl and a TensorBoard event file in its directory. */
#ifndef RK_TRAIN_RUN_RUN_LOG_H
#define RK_TRAIN_RUN_RUN_LOG_H

#include <stdbool.h>

#include <reckon/trainer.h>

/* What a line says; fields that are NaN or NULL are left out. */
typedef struct rk_log_entry {
    const char *kind; /* "train", "valid", "test" */
    int64_t epoch, step;
    double loss, samples_per_second, learning_rate_factor;
    const rk_metric *metrics;
    int32_t n_metrics;
} rk_log_entry;

typedef struct rk_run_log {
    char *jsonl_path, *events_path; /* events_path NULL: none is written */
} rk_run_log;

/* Appends to the files; without keep_bytes (-1) anew; with keep_bytes >= 0 the JSON lines are first cut back
 * to that many bytes (a resumed run), and the event file goes on after events_bytes. */
rk_status rk_run_log_open(const char *directory, bool tensorboard, int64_t keep_bytes, int64_t events_bytes,
                          rk_run_log *out);
void rk_run_log_release(rk_run_log *log);
rk_status rk_run_log_add(rk_run_log *log, const rk_log_entry *entry);
/* Lengths now, for a checkpoint. */
void rk_run_log_bytes(const rk_run_log *log, int64_t *jsonl, int64_t *events);

#endif
