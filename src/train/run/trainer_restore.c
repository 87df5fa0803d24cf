/* Resuming from a checkpoint: checks that the run file is compatible, and restores the progress that still
 * counts. */
#include <math.h>
#include <string.h>

#include "base/file/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "train/config/resume_check.h"
#include "train/run/trainer_internal.h"

rk_status rk_trainer_check_resumable(rk_trainer *t, const char *path) {
    RK_AUTOFREE char *file = NULL, *stored = NULL, *then = NULL, *now = NULL;
    RK_AUTO(rk_config_auto_free) rk_config *config = NULL;
    size_t n_bytes;
    RK_TRY(rk_path_join(path, "config.yaml", &file));
    RK_TRY(rk_file_read(file, &stored, &n_bytes));
    RK_TRY(rk_config_parse(stored, file, t->config->directory, NULL, 0,
                           &config)); /* keys that are newer than the checkpoint have their defaults */
    RK_TRY(rk_config_to_yaml(config, &then));
    RK_TRY(rk_config_expand_patterns(t->config));
    RK_TRY(rk_config_to_yaml(t->config, &now));
    RK_TRY(rk_resume_check(then, now, false));
    if (rk_config_has_transforms(t->config)) return RK_OK;
    return rk_transforms_load_files(&t->config->data, path, &t->config->transforms);
}

/* Rows that are others now, or elsewhere, would be taken for those that the run has seen, and evaluations for
 * comparable ones. */
static rk_status check_inputs_unchanged(rk_trainer *t, const char *start) {
    RK_AUTO(rk_manifest_release) rk_manifest m = {0};
    RK_TRY(rk_manifest_read(start, &m));
    rk_status status = m.has_inputs ? rk_input_fingerprints_compare(&m.inputs, &t->inputs) : RK_OK;
    if (status == RK_OK) return RK_OK;
    if (!t->options.allow_changed_data)
        return rk_error_hint(status,
                             "restore the data, start a new run with another train.output, "
                             "or continue with the changed data by --allow-changed-data");
    rk_log(RK_LOG_WARNING, "%s", rk_last_error());
    return RK_OK;
}

rk_status rk_trainer_fingerprint_inputs(rk_trainer *t, const char *start) {
    if (!t->is_first) return RK_OK;
    RK_TRY(rk_input_fingerprints_compute(t->config, &t->inputs));
    return start ? check_inputs_unchanged(t, start) : RK_OK;
}

/* A run that has ended goes on if it is now to be longer, unless it was stopped early. */
static bool has_run_ended(const rk_trainer *t) {
    const rk_train_section *s = &t->config->train;
    bool is_done =
        (s->epochs && t->progress.position.epoch >= s->epochs) || (s->steps && t->progress.step >= s->steps);
    return t->progress.finished && (is_done || rk_early_stopping_stops(&t->progress.stopping, &t->rules));
}

/* Whether the checkpoint's policy went by another metric; one that does not say what it went by went by this
 * one. */
static bool watched_other_metric(const rk_trainer *t, const char *then, int task, int metric) {
    char now[1024];
    rk_config_metric_name(t->config, task, metric, now, sizeof now);
    return then && strcmp(then, now) != 0;
}

static void warn_of_other_metric(const rk_trainer *t, const char *then, int task, int metric) {
    char now[1024];
    rk_config_metric_name(t->config, task, metric, now, sizeof now);
    if (t->is_first)
        rk_log(RK_LOG_WARNING, "the metric that chooses the best checkpoint was '%s' and is now '%s': %s",
               then, now,
               t->progress.finished ? "the run has ended and keeps its best checkpoint"
                                    : "the search for the best starts anew from here");
}

static bool checkpoint_exists(const rk_trainer *t, int64_t step) {
    RK_AUTOFREE char *path = NULL;
    RK_AUTO(rk_manifest_release) rk_manifest m = {0};
    return rk_checkpoint_path_of_step(t->config->train.output, step, &path) == RK_OK &&
           rk_manifest_read(path, &m) == RK_OK;
}

/* Parameters of a best evaluation that were not kept, or are gone, cannot be what the run ends with. */
static bool has_lost_best(const rk_trainer *t) {
    const rk_early_stopping *p = &t->progress.stopping;
    if (!t->config->keeps_best || isnan(p->best) || p->best_step == t->progress.step ||
        checkpoint_exists(t, p->best_step))
        return false;
    if (t->is_first)
        rk_log(RK_LOG_WARNING,
               "the checkpoint of the best evaluation, step %lld, is missing: the search for the best starts "
               "anew from here",
               (long long)p->best_step);
    return true;
}

/* Values of a metric count as long as the run uses that metric. A run that has ended keeps its best. Returns
 * whether the metrics differ from the checkpoint's and the run goes on. */
static bool reset_early_stopping(rk_trainer *t, const rk_manifest *m) {
    const rk_config *c = t->config;
    bool watched = watched_other_metric(t, m->metric, c->watched_task, c->watched_metric);
    bool plateau = watched_other_metric(t, m->plateau_metric, c->plateau_task, c->plateau_metric);
    if (watched) rk_early_stopping_reset_best(&t->progress.stopping);
    if (plateau) rk_early_stopping_reset_plateau(&t->progress.stopping);
    t->progress.finished = has_run_ended(t);
    bool stays = t->progress.finished && m->keeps_best == c->keeps_best;
    if (stays) t->progress.stopping = m->progress.stopping;
    if (watched && (t->rules.stops || c->keeps_best))
        warn_of_other_metric(t, m->metric, c->watched_task, c->watched_metric);
    if (plateau && t->rules.drops && !t->progress.finished)
        warn_of_other_metric(t, m->plateau_metric, c->plateau_task, c->plateau_metric);
    if (!t->progress.finished && has_lost_best(t)) rk_early_stopping_reset_best(&t->progress.stopping);
    return (watched || plateau) && !stays;
}

rk_status rk_trainer_restore(rk_trainer *t, const char *path) {
    RK_AUTO(rk_manifest_release) rk_manifest m = {0};
    RK_TRY(rk_checkpoint_read_model(path, t->model, &t->state));
    RK_TRY(rk_model_reload(t->model));
    RK_TRY(rk_checkpoint_read_before_images(path, t->model));
    RK_TRY(rk_checkpoint_read_residual(path, t->model));
    RK_TRY(rk_manifest_read(path, &m));
    t->progress = m.progress;
    bool anew = reset_early_stopping(t, &m);
    t->saved_step = anew || m.keeps_best != t->config->keeps_best ? -1 : t->progress.step;
    rk_model_scale_learning_rate(t->model, t->progress.stopping.learning_rate_factor);
    rk_log(RK_LOG_INFO, "resumed from '%s'", path);
    return rk_batch_source_seek(&t->train_source, t->progress.position);
}
