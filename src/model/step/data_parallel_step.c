/* Steps of a model over ranks: a share's forward and backward, what all have found, sums of dense gradients,
 * predictions. */
#include <math.h>
#include <string.h>

#include "base/thread/clock.h"
#include "base/memory.h"
#include "base/thread/trace.h"
#include "model/cuda/device_step.h"
#include "model/retrieval/retrieval.h"
#include "model/step/data_parallel.h"

static rk_status look_up_block(void *context, const rk_run *run) {
    const rk_model *model = ((const rk_model_run *)context)->model;
    uint64_t begin = rk_trace_begin();
    for (int32_t f = 0; f < model->n_lookups; f++) {
        const rk_model_lookup *at = &model->lookups[f];
        rk_activation to = {rk_run_data(run, at->input) + at->first,
                            rk_graph_shape(model->graph, at->input).cols, NULL};
        rk_sharded_look_up(model->data_parallel->sharded, f, run->first, run->first + run->n, &to);
    }
    rk_model_read_lengths(context, run);
    rk_trace_end(begin, "lookup");
    return RK_OK;
}

static rk_status sum_over_trainers(void *context, rk_real *values, size_t n) {
    return rk_comm_all_reduce_f32(((const rk_model_run *)context)->model->data_parallel->trainers, values, n);
}

static rk_status await_rows(const rk_data_parallel *sp) {
    uint64_t begin = rk_trace_begin();
    rk_status status = sp->sharded ? rk_sharded_await(sp->sharded) : RK_OK;
    rk_trace_end(begin, "wait for rows");
    return status;
}

static void bind_dense(rk_model *model, const rk_local_batch *local_batch) {
    if (model->n_dense)
        rk_graph_bind(model->graph, model->dense, (rk_real *)(size_t)local_batch->batch.dense, NULL);
}

static rk_reduction *reduction_at(const rk_data_parallel *sp, int64_t number) {
    return &sp->reductions[(size_t)number % sp->n_reductions];
}

/* Gradients from `first` on are whole: their buckets, from the last one down, set off while backward goes on
 * to those before them. */
static rk_status begin_buckets(rk_model *model, int64_t first) {
    rk_data_parallel *sp = model->data_parallel;
    rk_reduction *r = reduction_at(sp, sp->n_trained);
    rk_status (*begin)(rk_comm *, rk_channel, float *, size_t, rk_sum **) =
        sp->narrow ? rk_sum_begin_bf16 : rk_sum_begin;
    size_t n;
    const float *gradients = rk_graph_gradients(model->graph, &n);
    while (r->n_sums * sp->bucket < n) {
        size_t end = n - r->n_sums * sp->bucket, from = end > sp->bucket ? end - sp->bucket : 0;
        if (from < (size_t)first) break;
        uint64_t began = rk_trace_begin();
        if (r->values != gradients)
            memcpy(r->values + from, gradients + from, (end - from) * sizeof *gradients);
        RK_TRY(begin(sp->trainers, RK_LANE_DENSE, r->values + from, end - from, &r->sums[r->n_sums]));
        r->n_sums++;
        rk_trace_end(began, "begin sum of ranks");
    }
    return RK_OK;
}

static rk_status gradients_are_ready(void *context, int64_t first) {
    return begin_buckets(((const rk_model_run *)context)->model, first);
}

/* Forward and backward of the share; a loss or gradient that is not finite is named by the rank that has
 * it. */
static rk_status run_local_batch(rk_model_run *r, const rk_local_batch *local_batch) {
    rk_model *model = r->model;
    rk_graph_hooks hooks = rk_model_hooks(r, true);
    hooks.read = model->data_parallel->sharded ? look_up_block : NULL;
    hooks.batch = local_batch->total;
    hooks.sum = sum_over_trainers;
    hooks.ready = model->data_parallel->progress_thread.runs ? gradients_are_ready : NULL;
    bind_dense(model, local_batch);
    int64_t step = model->step + model->data_parallel->n_trained - model->data_parallel->n_applied;
    RK_TRY(rk_graph_train(model->graph, local_batch->batch.n, step, &hooks));
    rk_model_sum_blocks(model, local_batch->batch.n);
    double here;
    RK_TRY(rk_model_sum_micro_batches(model, &local_batch->batch, model->micro_batch_losses,
                                      rk_graph_n_micro_batches(model->graph, local_batch->batch.n), &here));
    RK_FAIL_IF(atomic_load(&r->not_finite), RK_NOT_FINITE,
               "rank %d: the gradient of an embedding is not finite", model->data_parallel->rank);
    return RK_OK;
}

static rk_status end_sums(rk_reduction *r) {
    rk_status status = RK_OK;
    for (size_t i = 0; i < r->n_sums; i++) {
        if (status == RK_OK) status = rk_sum_wait(r->sums[i]);
        rk_sum_free(r->sums[i]);
    }
    r->n_sums = 0;
    return status;
}

/* What this rank has found in a step sets off, with the dense gradients that have not yet. */
static rk_status begin_reduction(rk_model *model, const rk_local_batch *local_batch, rk_status found) {
    rk_data_parallel *sp = model->data_parallel;
    rk_reduction *r = reduction_at(sp, sp->n_trained);
    size_t loss_bytes = rk_graph_n_micro_batches(model->graph, local_batch->batch.n) *
                        (size_t)model->n_tasks * sizeof(double);
    r->step_status->status = (int32_t)found;
    r->step_status->stop = sp->asks_to_stop;
    r->step_status->error[0] = 0;
    r->step_status->bytes_sent = rk_comm_bytes_sent(sp->comm);
    if (found != RK_OK) rk_error_copy(r->step_status->error, sizeof r->step_status->error);
    memcpy(r->step_status->losses, model->micro_batch_losses, loss_bytes);
    for (int32_t t = 0; t < sp->roles.n_trainers; t++)
        sp->messages[t] = (rk_message){r->step_status, sizeof *r->step_status + loss_bytes};
    RK_TRY(rk_all_to_all_begin(sp->trainers, RK_LANE_VALUES, sp->messages, NULL, NULL, &r->step_statuses));
    return begin_buckets(model, 0);
}

/* What all have found: the step's loss; or the first failure, which is then every rank's. */
static rk_status receive_step_status(rk_model *model, const rk_reduction *r, const rk_batch *batch,
                                     double *loss) {
    rk_data_parallel *sp = model->data_parallel;
    size_t n_tasks = (size_t)model->n_tasks, n = 0;
    double *losses;
    RK_TRY(rk_all_to_all_wait(r->step_statuses));
    RK_TRY(rk_alloc((size_t)sp->n_micro_batches * n_tasks, sizeof *losses, &losses));
    rk_status found = RK_OK;
    rk_data_parallel_begin_receiving(sp);
    for (int32_t t = 0; t < sp->roles.n_trainers && found == RK_OK; t++) {
        const void *data;
        size_t loss_bytes, most = (size_t)(sp->first_micro_batches[t + 1] - sp->first_micro_batches[t]) *
                                  n_tasks * sizeof *losses;
        found = rk_all_to_all_take_head(r->step_statuses, t, sizeof(rk_verdict), &data, &loss_bytes);
        if (found != RK_OK) break;
        const rk_verdict *theirs = data;
        rk_data_parallel_receive(sp, theirs->stop, theirs->bytes_sent);
        if (theirs->status != RK_OK)
            found = rk_error((rk_status)theirs->status, "%.*s", (int)sizeof theirs->error, theirs->error);
        if (loss_bytes > most)
            found = rk_error(RK_INTERNAL, "rank %d sent the losses of more shards than it has", t);
        if (found != RK_OK) break;
        memcpy(losses + n * n_tasks, theirs->losses, loss_bytes);
        n += loss_bytes / (n_tasks * sizeof *losses);
    }
    if (found == RK_OK) found = rk_model_sum_micro_batches(model, batch, losses, n, loss);
    rk_free(losses);
    return found;
}

/* The summed gradients in the graph's place, if every part of the step may be applied. */
static rk_status end_reduction(rk_model *model, const rk_batch *batch, double *loss) {
    rk_reduction *r = reduction_at(model->data_parallel, model->data_parallel->n_applied);
    uint64_t begin = rk_trace_begin();
    double began = rk_clock_seconds();
    size_t n;
    float *gradients = rk_graph_gradients(model->graph, &n);
    rk_status status = receive_step_status(model, r, batch, loss), summed = end_sums(r);
    rk_all_to_all_free(r->step_statuses);
    r->step_statuses = NULL;
    model->data_parallel->sum_wait_s += rk_clock_seconds() - began;
    if (status == RK_OK) status = summed;
    if (status == RK_OK && r->values != gradients) memcpy(gradients, r->values, n * sizeof *gradients);
    if (status == RK_OK) status = rk_dense_optimizer_check(model->optimizer);
    model->data_parallel->n_applied++;
    rk_trace_end(begin, "sum gradients of ranks");
    return status == RK_NOT_FINITE ? rk_error_context(status, "step %lld", (long long)model->step) : status;
}

static rk_status send_gradients(rk_model *model) {
    uint64_t begin = rk_trace_begin();
    rk_status status = model->data_parallel->sharded
                           ? rk_sharded_give(model->data_parallel->sharded, model->gradients[0])
                           : RK_OK;
    rk_trace_end(begin, "send gradients");
    return status;
}

static rk_status finish_rows(rk_model *model, bool applies) {
    uint64_t begin = rk_trace_begin();
    rk_status status =
        model->data_parallel->sharded ? rk_sharded_finish(model->data_parallel->sharded, applies) : RK_OK;
    rk_trace_end(begin, "wait for updates of rows");
    return status;
}

/* All have found so. Rows' gradients are under way, and to be thrown away. */
static rk_status refuse_step(rk_model *model, rk_status status) {
    char error[2048];
    rk_error_copy(error, sizeof error);
    RK_TRY(finish_rows(model, false));
    return rk_error(status, "%s", error);
}

static void apply_dense(rk_model *model) {
    uint64_t begin = rk_trace_begin();
    rk_dense_optimizer_apply(model->optimizer);
    model->step++;
    rk_trace_end(begin, "update dense");
}

/* Both updates or none, as one process has it: rows wait for what all trainers have found. */
static rk_status apply_both(rk_model *model, const rk_local_batch *local_batch, double *loss) {
    double found = NAN;
    rk_status status = end_reduction(model, &local_batch->batch, &found);
    if (status != RK_OK && (status != RK_NOT_FINITE || !model->skip_not_finite))
        return status == RK_NOT_FINITE ? refuse_step(model, status) : status;
    RK_TRY(finish_rows(model, status == RK_OK));
    if (status != RK_OK) return rk_model_undo(model, status, loss);
    apply_dense(model);
    *loss = found;
    return RK_OK;
}

/* The oldest dense gradients, where those are stale too. */
static rk_status apply_oldest(rk_model *model, double *loss) {
    rk_batch forgotten = {.n = 0};
    RK_TRY(end_reduction(model, &forgotten, loss));
    apply_dense(model);
    return RK_OK;
}

/* The oldest batch that was begun. */
static rk_status train_oldest(rk_model *model, double *loss) {
    rk_data_parallel *sp = model->data_parallel;
    const rk_local_batch *local_batch = &sp->shares[(size_t)sp->n_trained % sp->n_shares];
    bool late = sp->n_reductions > 1;
    rk_model_keep_statistics(model);
    rk_model_run r = {.model = model,
                      .batch = &local_batch->batch,
                      .ids = local_batch->ids,
                      .task_samples = local_batch->task_samples,
                      .pairs = local_batch->pairs};
    RK_TRY(await_rows(sp));
    rk_status status = run_local_batch(&r, local_batch);
    if (status != RK_OK && (status != RK_NOT_FINITE || late)) return status;
    RK_TRY(begin_reduction(model, local_batch, status));
    sp->n_trained++;
    if (status == RK_OK) RK_TRY(send_gradients(model)); /* beside the sums */
    if (!late) return apply_both(model, local_batch, loss);
    RK_TRY(finish_rows(model, true));
    return sp->n_trained - sp->n_applied > sp->staleness ? apply_oldest(model, loss) : RK_OK;
}

static rk_status train_on_device(rk_model *model, const rk_local_batch *local_batch, double *loss) {
    rk_batch_part mine = {local_batch->batch, local_batch->total, local_batch->base,
                          local_batch->task_samples};
    return rk_device_step_train(model, &mine, local_batch->ids, local_batch->pairs, loss);
}

rk_status rk_data_parallel_train(rk_model *model, const rk_batch_part *part, double *loss) {
    rk_data_parallel *sp = model->data_parallel;
    uint64_t begin = rk_trace_begin();
    rk_local_batch *local_batch = &sp->shares[(size_t)sp->n_begun % sp->n_shares];
    int64_t first = rk_data_parallel_split(sp, sp->rank, part->total),
            last = rk_data_parallel_split(sp, sp->rank + 1, part->total);
    if (model->retrieval)
        RK_TRY(
            rk_local_batch_fill_pairs(model, part, model->step + sp->n_begun - sp->n_applied, local_batch));
    else
        RK_TRY(rk_local_batch_fill(model, part, first, last - first, true, local_batch));
    if (model->device_step) return train_on_device(model, local_batch, loss);
    if (sp->sharded) RK_TRY(rk_sharded_begin(sp->sharded, local_batch->batch.n, local_batch->ids, true));
    rk_trace_end(begin, "route");
    sp->n_begun++;
    *loss = NAN;
    return sp->n_begun - sp->n_trained > sp->staleness ? train_oldest(model, loss) : RK_OK;
}

rk_status rk_model_drain(rk_model *model, double *loss, bool *left) {
    if (model->device_step) return rk_device_step_drain(model, loss, left);
    *left = model->data_parallel && model->data_parallel->n_trained < model->data_parallel->n_begun;
    if (*left) {
        *loss = NAN;
        return train_oldest(model, loss);
    }
    *left = model->data_parallel && model->data_parallel->n_applied < model->data_parallel->n_trained;
    return *left ? apply_oldest(model, loss) : RK_OK;
}

rk_status rk_data_parallel_forward(rk_model *model, const rk_batch_part *part, int64_t first, int64_t n,
                                   rk_graph_hooks hooks) {
    rk_data_parallel *sp = model->data_parallel;
    rk_local_batch *local_batch = &sp->peek;
    rk_model_run *run = hooks.context;
    RK_TRY(rk_local_batch_fill(model, part, first, n, false, local_batch));
    if (sp->sharded) RK_TRY(rk_sharded_begin(sp->sharded, local_batch->batch.n, local_batch->ids, false));
    RK_TRY(await_rows(sp));
    run->batch = &local_batch->batch;
    run->ids = local_batch->ids;
    hooks.read = sp->sharded ? look_up_block : NULL;
    bind_dense(model, local_batch);
    RK_TRY(rk_graph_forward(model->graph, local_batch->batch.n, false, model->step, &hooks));
    return sp->sharded ? rk_sharded_finish(sp->sharded, false) : RK_OK;
}

static rk_status predict_on_device(rk_model *model, const rk_batch_part *part, int64_t first, int64_t n,
                                   float *predictions) {
    rk_local_batch *local_batch = &model->data_parallel->peek;
    RK_TRY(rk_local_batch_fill(model, part, first, n, false, local_batch));
    return rk_device_step_predict(model, &local_batch->batch, 0, n, local_batch->ids, predictions);
}

/* A piece that trainers share as they do a training batch; all get all of it. */
static rk_status predict_piece(rk_model *model, const rk_batch_part *part, int64_t first, int64_t n,
                               float *out) {
    const rk_data_parallel *sp = model->data_parallel;
    int64_t begin = rk_data_parallel_split(sp, sp->rank, n),
            end = rk_data_parallel_split(sp, sp->rank + 1, n);
    float *mine = out + begin * model->n_tasks;
    rk_model_run r = {.model = model, .predictions = mine};
    if (model->device_step)
        RK_TRY(predict_on_device(model, part, first + begin, end - begin, mine));
    else
        RK_TRY(rk_data_parallel_forward(model, part, first + begin, end - begin, rk_model_hooks(&r, false)));
    return rk_data_parallel_gather(sp, mine, n, n, model->n_tasks, out);
}

rk_status rk_data_parallel_predict(rk_model *model, const rk_batch_part *part, float *predictions) {
    rk_data_parallel *sp = model->data_parallel;
    RK_FAIL_IF(
        model->retrieval, RK_UNSUPPORTED,
        "over ranks a two_tower gives vectors, not predictions\nhint: start one process, without mpirun");
    RK_FAIL_IF(sp->n_applied < sp->n_begun, RK_INVALID_ARGUMENT,
               "batches that were begun are not trained on; drain them first");
    if (sp->sharded && !model->device_step) RK_TRY(rk_sharded_flush(sp->sharded));
    int64_t most = sp->cuts[sp->roles.n_trainers];
    for (int64_t first = 0; first < part->total; first += most)
        RK_TRY(predict_piece(model, part, first, part->total - first < most ? part->total - first : most,
                             predictions + first * model->n_tasks));
    return RK_OK;
}
