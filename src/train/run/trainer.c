#include <reckon/trainer.h>

#include <math.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/struct_size.h"
#include "base/thread/parallel.h"
#include "train/run/trainer_internal.h"

void rk_trainer_notify(rk_trainer *t, rk_event_kind kind, const char *message) {
    if (!t->options.on_event || !t->is_first) return;
    rk_event event = {.kind = kind,
                      .message = message,
                      .epoch = t->progress.position.epoch,
                      .step = t->progress.step,
                      .seconds_left = -1};
    t->options.on_event(t->options.user, &event);
}

static void notify_stage(void *user, const char *message) {
    rk_trainer_notify(user, RK_EVENT_STAGE, message);
}

static rk_early_stopping_rules early_stopping_rules(const rk_config *c) {
    const rk_train_section *s = &c->train;
    return (rk_early_stopping_rules){
        .larger_is_better = rk_metric_larger_is_better(c->watched_metric),
        .plateau_larger = rk_metric_larger_is_better(c->plateau_metric),
        .stops = s->early_stopping.line != 0,
        .drops = s->plateau.line != 0,
        .patience = s->early_stopping.patience,
        .plateau_patience = s->plateau.patience,
        .min_delta = s->early_stopping.min_delta,
        .factor = s->plateau.factor,
        .min_factor = s->plateau.min_factor,
    };
}

int64_t rk_trainer_displayed_epoch(const rk_trainer *t) {
    rk_dataset_position at = t->progress.position;
    return at.row == 0 && at.epoch > 0 ? at.epoch - 1 : at.epoch;
}

rk_status rk_trainer_open_split(rk_trainer *t, const char *split, int64_t max_batch_size, rk_dataset **out) {
    rk_config *c = t->config;
    const rk_transforms *transforms;
    RK_TRY(rk_config_transforms(c, notify_stage, t, &transforms));
    rk_dataset_options options = rk_config_dataset_options(c, split);
    if (c->train.evaluate.batch_size && strcmp(split, "train") != 0)
        options.batch_size = c->train.evaluate.batch_size;
    if (options.batch_size > max_batch_size) options.batch_size = max_batch_size;
    if (t->reader >= 0) {
        options.share = t->reader;
        options.n_shares = t->n_readers;
    }
    return rk_dataset_create(&c->data, transforms, &options, out);
}

/* The run's folder, which from here on is this run's alone, if there are checkpoints in it to go on from,
 * else NULL. */
static rk_status lock_output_and_find_checkpoint(rk_trainer *t, char **out) {
    const char *output = t->config->train.output;
    RK_AUTO(rk_text_list_release) rk_text_list names = {0};
    RK_TRY(rk_directory_lock_acquire(output, &t->lock));
    RK_TRY(rk_checkpoint_recover_interrupted(output));
    RK_TRY(rk_checkpoint_list(output, &names));
    if (names.n && !t->options.resume && !t->options.overwrite)
        return rk_error_hint(
            rk_error(RK_CONFIG, "'%s' already holds a run's checkpoints", output),
            "continue it with --resume, start over with --overwrite, or choose another train.output");
    return names.n && t->options.resume ? rk_strdup(output, out) : RK_OK;
}

/* The checkpoint that the run goes on from, or NULL. */
static rk_status find_start_checkpoint(rk_trainer *t, char **path) {
    RK_AUTOFREE char *begun = NULL;
    RK_TRY(
        rk_comm_agree_on_status(t->world, t->is_first ? lock_output_and_find_checkpoint(t, &begun) : RK_OK));
    RK_TRY(rk_comm_broadcast_text(t->world, &begun));
    return begun ? rk_checkpoint_find_over_ranks(t->world, begun, false, path) : RK_OK;
}

/* A test file that cannot be read is said now, not after the last epoch. */
static rk_status check_test_data(rk_trainer *t) {
    RK_AUTO(rk_dataset_auto_free) rk_dataset *test = NULL;
    if (!t->is_first || !rk_dataset_has_split(&t->config->data, "test")) return RK_OK;
    RK_TRY(rk_trainer_open_split(t, "test", INT64_MAX, &test));
    return rk_dataset_check(test);
}

static rk_status open_training_data(rk_trainer *t, const char *start) {
    if (start) RK_TRY(rk_trainer_check_resumable(t, start));
    RK_TRY(rk_trainer_fingerprint_inputs(t, start));
    RK_TRY(rk_trainer_open_split(t, "train", INT64_MAX, &t->train));
    if (t->reader >= 0) return RK_OK;
    rk_batch_source_init(&t->train_source, t->train, t->readers, "train", false);
    RK_TRY(check_test_data(t));
    if (!t->config->has_valid) return RK_OK;
    RK_TRY(rk_trainer_open_split(t, "valid", INT64_MAX, &t->valid));
    if (t->is_first) RK_TRY(rk_dataset_check(t->valid));
    rk_batch_source_init(&t->valid_source, t->valid, t->readers, "valid", true);
    return RK_OK;
}

static rk_status build_training_model(rk_trainer *t, const rk_batch *sample) {
    rk_config *c = t->config;
    rk_model_options options;
    RK_TRY(rk_config_model_options(c, rk_dataset_schema(t->train), true, &options));
    RK_TRY(rk_config_set_interactions(c, &options));
    rk_config_set_device(c, &options);
    rk_model_cluster cluster = {.comm = t->comm,
                                .asynchronous = c->cluster.asynchronous,
                                .dense_wire = rk_config_dense_wire(c),
                                .sample = sample};
    if (rk_comm_size(t->comm) > 1) {
        RK_TRY(rk_config_planner_request(c, rk_comm_size(t->world), &cluster.request));
        options.cluster = &cluster;
        options.max_batch =
            c->train.batch_size; /* that ranks share: longer ones are only predicted, piece by piece */
    }
    RK_TRY(rk_model_build(&options, &t->model));
    if (t->readers) rk_model_rank_boundaries(t->model, t->readers->cuts);
    return rk_model_state_dict(t->model, &t->state);
}

static rk_status open_output_directory(rk_trainer *t, bool goes_on) {
    const rk_train_section *s = &t->config->train;
    if (!t->is_first) return RK_OK;
    if (!goes_on && t->options.overwrite) RK_TRY(rk_checkpoint_remove_all(s->output));
    if (goes_on)
        RK_TRY(rk_checkpoint_remove_old(t->config,
                                        &t->progress)); /* what a kill right after a save has left to do */
    return rk_run_log_open(s->output, s->tensorboard, goes_on ? t->progress.log_bytes : -1,
                           goes_on ? t->progress.events_bytes : -1, &t->log);
}

/* Without a plan, tables are placed by a sample. */
static rk_status build_with_sample_batch(rk_trainer *t) {
    rk_trainer_sample sample = {0};
    bool asks = rk_comm_size(t->world) - t->n_readers > 1 && !t->config->cluster.plan;
    rk_status status = asks ? rk_trainer_read_sample(t, &sample) : RK_OK;
    if (status == RK_OK && t->reader < 0) status = build_training_model(t, sample.batch);
    rk_status returned = asks ? rk_trainer_release_sample(t, &sample) : RK_OK;
    return status == RK_OK ? returned : status;
}

/* Ranks fail together at the end of each part. */
static rk_status build_data_model_and_output(rk_trainer *t, const char *start) {
    RK_TRY(rk_comm_agree_on_status(t->world, open_training_data(t, start)));
    bool reads = t->reader >= 0;
    RK_TRY(rk_comm_agree_on_status(t->world, build_with_sample_batch(t)));
    if (start) RK_TRY(rk_comm_agree_on_status(t->world, reads ? RK_OK : rk_trainer_restore(t, start)));
    if (start && !reads) RK_TRY(rk_model_number_keys_over_ranks(t->model));
    rk_trainer_warn_of_config(t);
    return rk_comm_agree_on_status(t->world, open_output_directory(t, start != NULL));
}

/* Ranks that were all given one file write it and others beside it. */
static rk_status start_trace(rk_trainer *t) {
    const char *own = t->options.trace_path;
    RK_AUTOFREE char *first = NULL;
    if (own) RK_TRY(rk_strdup(own, &first));
    RK_TRY(rk_comm_broadcast_text(t->world, &first));
    if (!own) return RK_OK;
    bool same = !t->is_first && first && strcmp(own, first) == 0;
    RK_AUTO(rk_buffer_release) rk_buffer path = {0};
    rk_buffer_append_text(&path, own);
    if (same) rk_buffer_printf(&path, ".%d", (int)rk_comm_rank(t->world));
    return rk_buffer_detach(&path, &t->trace_path);
}

static rk_status create_trainer(const rk_config *config, const rk_trainer_options *options,
                                rk_trainer **out) {
    rk_trainer *t;
    RK_TRY(rk_alloc(1, sizeof *t, &t));
    t->options = *options;
    RK_AUTOFREE char *start = NULL;
    rk_status status;
    if (t->options.resume && t->options.overwrite)
        RK_GOTO(rk_error(RK_INVALID_ARGUMENT, "'resume' and 'overwrite' cannot both be set"));
    RK_GOTO(rk_config_copy(config, &t->config));
    t->saved_step = -1;
    rk_early_stopping_init(&t->progress.stopping);
    t->rules = early_stopping_rules(config);
    RK_GOTO(rk_trainer_assign_roles(t));
    if (config->train.threads && !t->options.pool)
        RK_GOTO(rk_parallel_set_threads((int)config->train.threads));
    RK_GOTO(start_trace(t));
    RK_GOTO(find_start_checkpoint(t, &start));
    RK_GOTO(build_data_model_and_output(t, start));
    *out = t;
    t = NULL;
done:
    rk_trainer_free(t);
    return status;
}

rk_status rk_trainer_create(const rk_config *config, const rk_trainer_options *options, rk_trainer **out) {
    rk_trainer_options o = RK_TRAINER_OPTIONS_INIT;
    rk_status status;
    RK_TRY(rk_options_copy_in(&o, sizeof o, options, RK_SIZE_WITH(rk_trainer_options, overwrite),
                              "rk_trainer_options"));
    RK_ON_POOL(o.pool, status = create_trainer(config, &o, out));
    return status;
}

void rk_trainer_free(rk_trainer *t) {
    if (!t) return;
    rk_evaluation_release(&t->evaluation);
    rk_run_log_release(&t->log);
    rk_state_dict_release(&t->state);
    if (t->has_run && rk_trainer_trains(t)) rk_trainer_end_other_ranks(t);
    rk_model_free(t->model);
    rk_batch_source_release(&t->train_source);
    rk_batch_source_release(&t->valid_source);
    rk_dataset_free(t->train);
    rk_dataset_free(t->valid);
    rk_input_fingerprints_release(&t->inputs);
    rk_directory_lock_free(t->lock);
    rk_trainer_release_ranks(t);
    rk_free(t->trace_path);
    rk_config_free(t->config);
    rk_free(t);
}

void rk_trainer_stop(rk_trainer *t) {
    atomic_store(&t->stop, 1);
}

rk_model *rk_trainer_model(rk_trainer *t) {
    return t->model;
}

/* What a resumed run cuts off again, and writes again at its end. */
static rk_status log_test_metrics(rk_trainer *t) {
    const rk_progress *p = &t->progress;
    return rk_run_log_add(&t->log, &(rk_log_entry){.kind = "test",
                                                   .epoch = rk_trainer_displayed_epoch(t),
                                                   .step = t->has_best ? p->stopping.best_step : p->step,
                                                   .loss = NAN,
                                                   .samples_per_second = NAN,
                                                   .learning_rate_factor = NAN,
                                                   .metrics = t->evaluation.shown,
                                                   .n_metrics = t->evaluation.n_shown});
}

static rk_status evaluate_split(rk_trainer *t, const char *split, const rk_metric **metrics,
                                int32_t *n_metrics) {
    *metrics = NULL;
    *n_metrics = 0;
    if (!rk_trainer_trains(t)) return RK_OK;
    RK_AUTO(rk_dataset_auto_free) rk_dataset *dataset = NULL;
    RK_TRY(rk_trainer_open_split(t, split, INT64_MAX, &dataset));
    rk_evaluation evaluation;
    RK_AUTO(rk_batch_source_release) rk_batch_source source = {0};
    rk_batch_source_init(&source, dataset, t->readers, split, true);
    rk_status status = rk_evaluate(t->config, t->model, &source, &evaluation);
    if (status == RK_NOT_FOUND)
        status =
            rk_error_context(RK_BAD_DATA, "'%s'", split); /* a file that is gone; there is such a split */
    RK_TRY(status);
    rk_evaluation_release(&t->evaluation);
    t->evaluation = evaluation;
    *metrics = evaluation.shown;
    *n_metrics = evaluation.n_shown;
    return strcmp(split, "test") == 0 && t->is_first ? log_test_metrics(t) : RK_OK;
}

rk_status rk_trainer_evaluate(rk_trainer *t, const char *split, const rk_metric **metrics,
                              int32_t *n_metrics) {
    rk_status status;
    RK_ON_POOL(t->options.pool, status = evaluate_split(t, split, metrics, n_metrics));
    return status;
}
