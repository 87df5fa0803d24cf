/* A search over a run file's settings: one training after the other, judged on the validation data.
 * docs/reports.md.
 * Experimental: it may change in any release (docs/api.md). */
#ifndef RECKON_EXPERIMENTAL_TUNE_H
#define RECKON_EXPERIMENTAL_TUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <reckon/trainer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rk_tune rk_tune;

typedef struct rk_tune_options {
    size_t struct_size;
    const char *const *grids; /* [n_grids] "embedding.dim=8,16": values to try; commas within brackets or
                                 quotes part nothing */
    size_t n_grids;
    const char *const *ranges; /* [n_ranges] "train.optimizer.learning_rate=1e-4..1e-1:log", ":int" for whole
                                  numbers; of random searches */
    size_t n_ranges;
    int64_t n_random; /* trials, each with values drawn from grids and ranges; 0: every combination of the
                         grids */
    const char *const *overrides; /* [n_overrides] of all trials: "train.epochs=3" */
    size_t n_overrides;
    const char *metric; /* "auc", "click/auc"; NULL: what the run file's early stopping goes by */
    const char *output; /* directory of the search; NULL: the run's train.output with "-tune" behind it */
    bool resume;        /* keep the trials that are done */
    uint64_t seed;      /* of a random search's values */
    /* Before a trial begins and after it has ended (done), with its number from 0 and its settings; may be
     * NULL. */
    void (*on_trial)(void *user, int64_t trial, int64_t n_trials, const char *settings, bool done);
    rk_event_callback on_event; /* of the trainings; may be NULL */
    void *user;
} rk_tune_options;
#define RK_TUNE_OPTIONS_INIT \
    { sizeof(rk_tune_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, false, 1, 0, 0, 0 }

/* Every trial's configuration is checked here, before the first one starts. path: the run file. */
RK_API rk_status rk_tune_create(const char *path, const rk_tune_options *options, rk_tune **out);
RK_API void rk_tune_free(rk_tune *tune);
/* A trial that fails is noted, and the next one starts. RK_INTERRUPTED after rk_tune_stop; RK_NOT_FOUND if no
 * trial gave a value. After each trial tune.json, tune.csv and tune.svg in the output directory say how far
 * it is. */
RK_API rk_status rk_tune_run(rk_tune *tune);
RK_API void rk_tune_stop(rk_tune *tune); /* async-signal-safe; from the thread that runs the search */
RK_API const char *rk_tune_output(const rk_tune *tune);
/* All trials, best first. Free with rk_text_free. */
RK_API rk_status rk_tune_to_text(const rk_tune *tune, char **out);

#ifdef __cplusplus
}
#endif
#endif
