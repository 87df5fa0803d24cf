/* A whole training run as the run file says it: epochs, evaluation, early stopping, checkpoints, logs.
 * Stable (docs/api.md). */
#ifndef RECKON_TRAINER_H
#define RECKON_TRAINER_H

#include <stdbool.h>
#include <stdint.h>

#include <reckon/comm.h>
#include <reckon/config.h>
#include <reckon/model.h>
#include <reckon/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rk_trainer rk_trainer;

typedef struct rk_metric {
    const char *name; /* "auc", "logloss", "loss"; "click/auc" where there are several tasks */
    double value;     /* NaN where undefined (AUC of one class) */
} rk_metric;

typedef enum rk_event_kind {
    RK_EVENT_STAGE,      /* message: what begins ("reading", "building vocabularies", "training") */
    RK_EVENT_PROGRESS,   /* every train.log_every steps */
    RK_EVENT_EVALUATION, /* metrics of the validation data */
    RK_EVENT_CHECKPOINT, /* message: the path */
    RK_EVENT_STOP        /* message: why training ended */
} rk_event_kind;

typedef struct rk_event {
    rk_event_kind kind;
    const char *message;
    int64_t epoch, step, n_steps; /* n_steps: of the run, 0 = unknown */
    double samples_per_second, loss,
        seconds_left;         /* seconds_left < 0: unknown; loss: mean since the last progress event */
    const rk_metric *metrics; /* [n_metrics]; progress: counts of dynamic tables' keys */
    int32_t n_metrics;
    bool best; /* the evaluation is the best so far */
} rk_event;
typedef void (*rk_event_callback)(void *user, const rk_event *event);

typedef struct rk_trainer_options {
    size_t struct_size;
    bool resume; /* go on from the newest whole checkpoint of the run's directory, if there is one */
    const char *trace_path; /* Chrome trace, or NULL; ranks behind the first that are given its path append
                               .1, .2, ... */
    rk_event_callback on_event; /* called on the thread that runs; may be NULL */
    void *user;
    rk_comm *comm; /* the ranks that train together, each with the same config; NULL: this process alone. Must
                      outlive the trainer */
    bool allow_changed_data; /* with resume: go on though files of the data are others than when the
                                checkpoint was saved, with a warning */
    bool overwrite; /* begin anew: checkpoints and logs of a run in the directory are removed once the data
                       could be read; not with resume */
    rk_pool *pool;  /* of create, run and evaluate, in place of the process's; train.threads does not count
                       then. NULL: the process's. Must outlive the trainer */
} rk_trainer_options;
#define RK_TRAINER_OPTIONS_INIT \
    { sizeof(rk_trainer_options), false, 0, 0, 0, 0, false, false, 0 }

/* Over ranks, create, run, evaluate are collective: all ranks call them. Only rank 0 has events; data and
 * output are read and written by all, at the same paths. A failure is every rank's, or, where the others
 * could not be told, ends in RK_PEER_LOST there; rk_comm_abort ends them sooner.
 *
 * The config must outlive the trainer. Without `resume` or `overwrite`, a run directory that already holds
 * checkpoints is refused. RK_BUSY: another process trains there. */
RK_API rk_status rk_trainer_create(const rk_config *config, const rk_trainer_options *options,
                                   rk_trainer **out);
RK_API void rk_trainer_free(rk_trainer *trainer);
/* Train to the end. RK_INTERRUPTED after rk_trainer_stop: the step was finished and a checkpoint saved. */
RK_API rk_status rk_trainer_run(rk_trainer *trainer);
/* Ask a running trainer to finish its step, save and return. Async-signal-safe; any thread. */
RK_API void rk_trainer_stop(rk_trainer *trainer);
RK_API rk_model *rk_trainer_model(rk_trainer *trainer); /* after run: the best one if the run keeps the best;
                                                           NULL on ranks that only read */

/* Metrics of a split ("valid", "test" or a path) under the model as it is now. *metrics is owned by the
 * trainer until its next call. Those of "test" are logged too. */
RK_API rk_status rk_trainer_evaluate(rk_trainer *trainer, const char *split, const rk_metric **metrics,
                                     int32_t *n_metrics);

/* A metric that the run's evaluations log, by its name or (NULL) the one that the run goes by: *name as
 * metrics.jsonl has it behind "valid/"; free with rk_text_free. place: where the name was given, for
 * messages. Errors: RK_NOT_FOUND: the run has no validation data; RK_CONFIG: there is no such metric, or
 * train.metrics leaves it out. */
RK_API rk_status rk_trainer_metric(const rk_config *config, const char *metric, const char *place,
                                   char **name, bool *larger_is_better);

#ifdef __cplusplus
}
#endif
#endif
