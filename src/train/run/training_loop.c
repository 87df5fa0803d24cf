/* The loop: read, step, report, evaluate, save. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/thread/clock.h"
#include "base/file/file.h"
#include "base/memory.h"
#include "base/thread/trace.h"
#include "base/thread/parallel.h"
#include "train/run/trainer_internal.h"

enum { N_TRAFFIC_METRICS = 5, N_KEY_METRICS = 4 };

/* Steps of the whole run, 0 while unknown. */
static int64_t count_total_steps(const rk_trainer *t) {
    const rk_train_section *s = &t->config->train;
    int64_t n_rows = rk_batch_source_n_rows(&t->train_source), by_epochs = 0;
    if (s->epochs && n_rows >= 0) by_epochs = s->epochs * ((n_rows + s->batch_size - 1) / s->batch_size);
    if (!s->steps) return by_epochs;
    return by_epochs && by_epochs < s->steps ? by_epochs : s->steps;
}

static rk_status write_log_entry(rk_trainer *t, const rk_log_entry *entry) {
    return t->is_first ? rk_run_log_add(&t->log, entry) : RK_OK;
}

/* What a step since the last entry exchanged, over ranks. */
static int32_t add_traffic_metrics(rk_trainer *t, rk_metric *out) {
    if (rk_comm_size(t->comm) == 1) return 0;
    rk_model_comm_traffic was = t->traffic, now = rk_model_count_comm_traffic(t->model);
    double n = (double)(now.n_batches - was.n_batches);
    t->traffic = now;
    if (n == 0) return 0;
    const rk_metric metrics[N_TRAFFIC_METRICS] = {
        {"bytes_sent", (now.bytes_sent - was.bytes_sent) / n},
        {"bytes_sent_most", (now.bytes_sent_most - was.bytes_sent_most) / n},
        {"rows_wait_s", (now.rows_wait_s - was.rows_wait_s) / n},
        {"sum_wait_s", (now.sum_wait_s - was.sum_wait_s) / n},
        {"staleness", (double)(now.staleness_sum - was.staleness_sum) / n},
    };
    memcpy(out, metrics, sizeof metrics);
    return N_TRAFFIC_METRICS;
}

/* Of dynamic tables, so far. */
static int32_t add_key_metrics(const rk_trainer *t, rk_metric *out) {
    rk_key_counts keys = rk_model_key_counts(t->model);
    if (!keys.n_tables) return 0;
    const rk_metric metrics[N_KEY_METRICS] = {{"dynamic_rows", (double)keys.n_rows},
                                              {"dynamic_admitted", (double)keys.n_admitted},
                                              {"dynamic_evicted", (double)keys.n_evicted},
                                              {"dynamic_refused", (double)keys.n_refused}};
    memcpy(out, metrics, sizeof metrics);
    return N_KEY_METRICS;
}

/* The progress line and its log entry, if it is time (or `now`). */
static rk_status report_progress(rk_trainer *t, bool now) {
    int64_t every = t->config->train.log_every;
    double seconds = rk_clock_seconds(), passed = seconds - t->last_progress;
    if (!now && (every ? t->progress.step % every != 0 : passed < 1)) return RK_OK;
    bool goes_on = t->progress.step > t->first_step;
    if (t->progress.step == t->last_progress_step && !t->progress.loss_steps)
        return RK_OK; /* a run that goes on from this step may have losses to tell */
    double loss = t->progress.loss_steps ? t->progress.loss_sum / (double)t->progress.loss_steps : NAN;
    int64_t total = count_total_steps(t), left = total - t->progress.step;
    double rate = passed > 0 ? (double)t->samples_since / passed : 0;
    rk_metric metrics[N_TRAFFIC_METRICS + N_KEY_METRICS];
    int32_t n_traffic = add_traffic_metrics(t, metrics), n_keys = add_key_metrics(t, metrics + n_traffic);
    rk_event event = {.kind = RK_EVENT_PROGRESS,
                      .epoch = rk_trainer_displayed_epoch(t),
                      .step = t->progress.step,
                      .n_steps = total,
                      .samples_per_second = rate,
                      .loss = loss,
                      .seconds_left = total > 0 && goes_on ? (double)left * (seconds - t->started) /
                                                                 (double)(t->progress.step - t->first_step)
                                                           : -1,
                      .metrics = metrics + n_traffic,
                      .n_metrics = n_keys};
    if (t->options.on_event && t->is_first) t->options.on_event(t->options.user, &event);
    t->last_progress = seconds;
    t->last_progress_step = t->progress.step;
    t->samples_since = 0;
    t->progress.loss_sum = 0;
    t->progress.loss_steps = 0;
    return write_log_entry(t,
                           &(rk_log_entry){.kind = "train",
                                           .epoch = event.epoch,
                                           .step = event.step,
                                           .loss = loss,
                                           .samples_per_second = goes_on ? rate : NAN,
                                           .learning_rate_factor = t->progress.stopping.learning_rate_factor,
                                           .metrics = metrics,
                                           .n_metrics = n_traffic + n_keys});
}

static void record_loss(rk_trainer *t, double loss) {
    if (isnan(loss)) return; /* a skipped step, which the model counts, or a batch that was only begun */
    if (t->first_step == 0 && !t->has_loss) rk_trainer_warn_of_first_loss(t, loss);
    t->has_loss = true;
    t->progress.loss_sum += loss;
    t->progress.loss_steps++;
}

/* Train on what was begun, before anything looks at the model or at all losses so far. */
static rk_status finish_queued_batches(rk_trainer *t) {
    for (;;) {
        double loss;
        bool left;
        RK_TRY(rk_model_finish_oldest_batch(t->model, &loss, &left));
        if (!left) return RK_OK;
        record_loss(t, loss);
    }
}

static rk_status save_checkpoint(rk_trainer *t) {
    if (t->saved_step == t->progress.step) return RK_OK;
    RK_TRY(finish_queued_batches(t));
    uint64_t begin = rk_trace_begin();
    if (t->is_first) rk_run_log_bytes(&t->log, &t->progress.log_bytes, &t->progress.events_bytes);
    RK_AUTOFREE char *path = NULL;
    RK_TRY(rk_model_flush(t->model));
    RK_TRY(rk_model_send_control_to_servers(t->model, RK_CONTROL_SAVE));
    RK_TRY(rk_trainer_write_checkpoint(t, &path));
    t->saved_step = t->progress.step;
    rk_trace_end(begin, "checkpoint");
    rk_trainer_notify(t, RK_EVENT_CHECKPOINT, path);
    return RK_OK;
}

static rk_status log_validation_metrics(rk_trainer *t, const rk_event *event) {
    return write_log_entry(t,
                           &(rk_log_entry){.kind = "valid",
                                           .epoch = event->epoch,
                                           .step = event->step,
                                           .loss = NAN,
                                           .samples_per_second = NAN,
                                           .learning_rate_factor = t->progress.stopping.learning_rate_factor,
                                           .metrics = t->evaluation.shown,
                                           .n_metrics = t->evaluation.n_shown});
}

/* Evaluate on the validation data, judge, log. *stop: early stopping says so. */
static rk_status evaluate_validation(rk_trainer *t, bool *stop) {
    RK_TRY(finish_queued_batches(t));
    uint64_t begin = rk_trace_begin();
    rk_evaluation evaluation;
    RK_TRY(rk_evaluate(t->config, t->model, &t->valid_source, &evaluation));
    rk_evaluation_release(&t->evaluation);
    t->evaluation = evaluation;
    rk_trace_end(begin, "evaluate");
    const rk_config *c = t->config;
    double watched = rk_evaluation_value(&evaluation, c->watched_task, c->watched_metric);
    rk_early_stopping_decision decision =
        rk_early_stopping_decide(&t->progress.stopping, &t->rules, t->progress.step, watched,
                                 rk_evaluation_value(&evaluation, c->plateau_task, c->plateau_metric));
    if (isnan(watched)) rk_trainer_warn_of_no_metric(t);
    if (decision.dropped) RK_TRY(rk_trainer_scale_learning_rate(t));
    rk_event event = {.kind = RK_EVENT_EVALUATION,
                      .epoch = rk_trainer_displayed_epoch(t),
                      .step = t->progress.step,
                      .seconds_left = -1,
                      .metrics = evaluation.shown,
                      .n_metrics = evaluation.n_shown,
                      .best = decision.best};
    if (t->options.on_event && t->is_first) t->options.on_event(t->options.user, &event);
    *stop = decision.stop;
    return log_validation_metrics(t, &event);
}

/* Why there is no further step, or NULL. */
static const char *find_end_reason(const rk_trainer *t) {
    const rk_train_section *s = &t->config->train;
    if (s->epochs && t->progress.position.epoch >= s->epochs) return "all epochs are done";
    if (s->steps && t->progress.step >= s->steps) return "all steps are done";
    return NULL;
}

/* After a step, or at the end of an epoch (epoch_done): evaluate and save if it is time. The speed that is
 * told is that of training without them. */
static rk_status evaluate_and_save_if_due(rk_trainer *t, bool epoch_done, bool *stop) {
    const rk_train_section *s = &t->config->train;
    int64_t step = t->progress.step, epoch = t->progress.position.epoch;
    bool evaluates =
        t->valid && (epoch_done ? s->evaluate.every_epochs && epoch % s->evaluate.every_epochs == 0
                                : s->evaluate.every_steps && step % s->evaluate.every_steps == 0);
    if (t->progress.stopping.last_step == step)
        evaluates = false; /* an epoch's last step, after which it was time too */
    bool saves = epoch_done ? s->checkpoint.every_epochs && epoch % s->checkpoint.every_epochs == 0
                            : s->checkpoint.every_steps && step % s->checkpoint.every_steps == 0;
    double begun = rk_clock_seconds();
    if (evaluates) RK_TRY(evaluate_validation(t, stop));
    if (evaluates && t->config->keeps_best && t->progress.stopping.best_step == step) saves = true;
    if (epoch_done && saves) t->saved_step = -1; /* the position moved on, though the step did not */
    bool is_last = *stop || find_end_reason(t);  /* saved with the run's end, once */
    if (saves && !is_last) RK_TRY(save_checkpoint(t));
    t->last_progress += rk_clock_seconds() - begun;
    return RK_OK;
}

static rk_status train_batch(rk_trainer *t, const rk_rank_batch *rank_batch) {
    double loss;
    rk_model_set_next_batch(t->model, rk_batch_source_peek(&t->train_source));
    RK_TRY(rk_model_train_rank_batch(t->model, rank_batch, &loss));
    t->progress.step++;
    t->progress.position = rk_batch_source_position(&t->train_source);
    t->samples_since += rank_batch->total;
    record_loss(t, loss);
    return RK_OK;
}

static rk_status train_to_end(rk_trainer *t, const char **why) {
    bool stop = false;
    for (;;) {
        const char *end = find_end_reason(t);
        if (end) {
            *why = end;
            return RK_OK;
        }
        if (rk_trainer_asked_to_stop(t)) {
            RK_TRY(save_checkpoint(t));
            return rk_error(RK_INTERRUPTED, "stopped on request after step %lld",
                            (long long)t->progress.step);
        }
        const rk_source_batch *fed;
        uint64_t begin = rk_trace_begin();
        rk_status status = rk_batch_source_next(&t->train_source, &fed);
        rk_trace_end(begin, "read");
        if (status == RK_END) {
            RK_FAIL_IF(t->progress.position.row == 0, RK_BAD_DATA, "the training data has no rows");
            t->progress.position = rk_batch_source_position(&t->train_source);
            RK_TRY(finish_queued_batches(t));
            RK_TRY(report_progress(t, true));
            RK_TRY(evaluate_and_save_if_due(t, true, &stop));
        } else {
            RK_TRY(status);
            RK_TRY(train_batch(t, &fed->rank_batch));
            RK_TRY(report_progress(t, false));
            RK_TRY(evaluate_and_save_if_due(t, false, &stop));
        }
        if (stop) {
            *why = "stopped early: the metric no longer improves";
            return RK_OK;
        }
    }
}

/* End with the parameters of the best evaluation. */
static rk_status load_best_parameters(rk_trainer *t) {
    if (!t->config->keeps_best || isnan(t->progress.stopping.best)) return RK_OK;
    if (t->progress.stopping.best_step == t->progress.step) return RK_OK;
    return rk_trainer_load_best(t);
}

static rk_status run_training(rk_trainer *t) {
    const char *why = "the run had ended before";
    if (t->reader >= 0) return rk_trainer_run_data_loader(t);
    if (!rk_model_is_trainer_rank(t->model)) return rk_trainer_run_embedding_server(t);
    if (!t->progress.finished) {
        rk_trainer_notify(t, RK_EVENT_STAGE, "training");
        t->started = t->last_progress = rk_clock_seconds();
        t->first_step = t->last_progress_step = t->progress.step;
        RK_TRY(train_to_end(t, &why));
        RK_TRY(finish_queued_batches(t));
        RK_TRY(report_progress(t, true));
        if (t->valid && t->progress.stopping.n_evaluations ==
                            0) { /* steps that ended before the first evaluation was due */
            bool stop;
            RK_TRY(evaluate_validation(t, &stop));
        }
        t->progress.finished = true;
        t->saved_step = -1;
    }
    RK_TRY(save_checkpoint(t));
    rk_trainer_notify(t, RK_EVENT_STOP, why);
    return load_best_parameters(t);
}

rk_status rk_trainer_run(rk_trainer *t) {
    if (t->trace_path) {
        RK_TRY(rk_trace_start(t->trace_path));
        rk_trace_name_thread("trainer");
    }
    rk_status status;
    RK_ON_POOL(t->options.pool, status = run_training(t));
    t->has_run = status == RK_OK || status == RK_INTERRUPTED;
    if (!t->trace_path) return status;
    if (status == RK_OK) return rk_trace_stop();
    char reason[4096];
    rk_error_copy(reason, sizeof reason);
    rk_trace_stop();
    return rk_error(status, "%s", reason);
}
