/* How a run's events look: one line that is rewritten on a terminal, plain lines elsewhere. */
#ifndef RK_CLI_PROGRESS_H
#define RK_CLI_PROGRESS_H

#include <stdbool.h>

#include <reckon/trainer.h>

typedef struct progress {
    bool interactive, quiet;
    bool line_open; /* a rewritten line stands on the terminal */
} progress;

void progress_init(progress *state, bool quiet);
void progress_print_event(void *user, const rk_event *event); /* user: progress */
/* "rows 1.2 M  34%" for long passes over files; fraction < 0: unknown. */
void progress_print_rows(progress *state, const char *what, int64_t n_rows, double fraction);
void progress_end(progress *state); /* end an open line */

/* "auc 0.90123  logloss 0.30210" on one line. */
void print_metrics(const rk_metric *metrics, int32_t n_metrics, bool to_stdout);

#endif
