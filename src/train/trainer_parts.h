/* Inside a trainer: what setting up, running and saving share. */
#ifndef RK_TRAIN_TRAINER_PARTS_H
#define RK_TRAIN_TRAINER_PARTS_H

#include <stdatomic.h>

#include "data/dataset.h"
#include "train/checkpoint_parts.h"
#include "train/evaluation.h"
#include "train/run_log.h"

struct rk_trainer {
    rk_config *config;
    rk_trainer_options options;
    char *trace_path;
    rk_model *model;
    rk_dataset *train, *valid; /* valid NULL: none */
    rk_state state;            /* of the model */
    rk_progress progress;
    rk_policy_rules rules;
    rk_run_log log;
    rk_evaluation evaluation;  /* the last one, for rk_trainer_evaluate and events */
    int64_t saved_step;        /* of the newest checkpoint; -1: none */
    double started;            /* seconds, of the run */
    double last_progress;      /* seconds */
    int64_t last_progress_step, samples_since; /* since the last progress event */
    int64_t first_step;        /* of this run of the program */
    atomic_int stop;
};

void rk_trainer_tell(rk_trainer *trainer, rk_event_kind kind, const char *message);
rk_status rk_trainer_save(rk_trainer *trainer);
/* Evaluate on the validation data, judge, log. *stop: early stopping says so. */
rk_status rk_trainer_validate(rk_trainer *trainer, bool *stop);
/* The progress line and its log entry, if it is time (or `now`). */
rk_status rk_trainer_report(rk_trainer *trainer, bool now);

#endif
