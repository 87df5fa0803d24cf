/* The trials: one training after the other, each judged by its log. */
#include <stdio.h>
#include <string.h>

#include "base/thread/clock.h"
#include "base/file/file.h"
#include "base/memory.h"
#include "report/run_metrics_log.h"
#include "tune/tune_internal.h"

/* The trainer is told too; one that is only being made sees the flag before it runs. */
void rk_tune_stop(rk_tune *t) {
    atomic_store(&t->stop, 1);
    rk_trainer *running = atomic_load(&t->running);
    if (running) rk_trainer_stop(running);
}

static rk_status run_trainer(rk_tune *t, const rk_config *config) {
    rk_trainer_options options = RK_TRAINER_OPTIONS_INIT;
    options.resume = t->options.resume;
    options.on_event = t->options.on_event;
    options.user = t->options.user;
    rk_trainer *trainer;
    RK_TRY(rk_trainer_create(config, &options, &trainer));
    atomic_store(&t->running, trainer);
    if (atomic_load(&t->stop)) rk_trainer_stop(trainer);
    rk_status status = rk_trainer_run(trainer);
    atomic_store(&t->running, NULL);
    rk_trainer_free(trainer);
    return status;
}

/* The log holds all of a trial, also of one that was resumed. */
static rk_status read_best_metric(const rk_tune *t, const rk_config *config, rk_trial *trial) {
    RK_AUTO(rk_run_metrics_log_release) rk_run_metrics_log record = {0};
    char name[300];
    RK_TRY(rk_run_metrics_log_read(rk_config_output(config), &record));
    snprintf(name, sizeof name, "valid/%s", t->metric);
    const rk_curve *curve = rk_run_metrics_log_find_curve(&record, name);
    int64_t best = curve ? rk_curve_find_best(curve, t->larger_is_better) : -1;
    if (best >= 0) {
        trial->best = curve->values[best];
        trial->step = curve->steps[best];
    }
    RK_FAIL_IF(best < 0, RK_NOT_FINITE, "no evaluation computed '%s'", t->metric);
    return RK_OK;
}

/* The first line of the last error. */
static rk_status store_error_of_trial(rk_trial *trial) {
    const char *text = rk_last_error();
    rk_free(trial->error);
    trial->error = NULL;
    return rk_strndup(text, strcspn(text, "\n"), &trial->error);
}

static rk_status run_trial(rk_tune *t, rk_trial *trial) {
    RK_AUTO(rk_tune_free_config) rk_config *config = NULL;
    RK_TRY(rk_tune_load_trial_config(t, trial, &config));
    double started = rk_clock_seconds();
    rk_status status = run_trainer(t, config);
    trial->seconds += rk_clock_seconds() - started;
    if (status == RK_OK) status = read_best_metric(t, config, trial);
    if (status == RK_INTERRUPTED) return status;
    trial->state = status == RK_OK ? RK_TRIAL_done : RK_TRIAL_failed;
    return status == RK_OK ? RK_OK : store_error_of_trial(trial);
}

static void notify_trial(const rk_tune *t, int64_t number, bool done) {
    if (t->options.on_trial)
        t->options.on_trial(t->options.user, number, t->n_trials, t->trials[number].settings, done);
}

rk_status rk_tune_run(rk_tune *t) {
    bool any = false;
    RK_TRY(rk_tune_write_files(t));
    for (int64_t i = 0; i < t->n_trials; i++) {
        rk_trial *trial = &t->trials[i];
        if (trial->state == RK_TRIAL_waiting) {
            RK_FAIL_IF(atomic_load(&t->stop), RK_INTERRUPTED, "stopped on request before %s", trial->name);
            notify_trial(t, i, false);
            RK_TRY(run_trial(t, trial));
            RK_TRY(rk_tune_write_files(t));
            notify_trial(t, i, true);
        }
        any = any || trial->state == RK_TRIAL_done;
    }
    RK_FAIL_IF(!any, RK_NOT_FOUND, "no trial succeeded: %s", t->trials[0].error);
    return RK_OK;
}
