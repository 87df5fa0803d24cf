/* A step on a GPU: ids and numbers go up on one stream, ids are checked and sorted on a second, and all else
 * runs on a third, as one graph of launches where batches of one size follow each other. The host waits
 * twice: for the check of the ids, before anything uses them, and for the step status at the end: the losses,
 * and whether anything was not finite, in which case the device has updated nothing. */
#include <math.h>
#include <string.h>

#include "base/thread/trace.h"
#include "cuda/dense/dense_update.h"
#include "model/cuda/device_retrieval.h"
#include "model/cuda/device_data_parallel.h"
#include "model/cuda/device_step_internal.h"
#include "model/retrieval/retrieval.h"
#include "nn/cuda/device_metrics.h"

/* What is recorded into a graph of launches: everything that it reads is at the same place in each step, but
 * for the batch context. */
typedef struct recording {
    rk_model *model;
    const rk_device_batch *batch;
    int64_t total;    /* samples, on all ranks */
    rk_status status; /* the first that is not RK_OK */
} recording;

static void note(recording *r, rk_status status) {
    if (r->status == RK_OK) r->status = status;
}

static void give_inputs(recording *r, int64_t n) {
    rk_model *model = r->model;
    rk_device_step *d = model->device_step;
    const rk_device_batch *batch = r->batch;
    if (model->n_dense)
        rk_stream_copy(d->compute, rk_device_graph_data(d->graph, model->dense),
                       batch->device + d->layout.dense, (size_t)(n * model->n_dense) * sizeof(float));
    if (d->layout.n_sequences)
        rk_stream_copy(d->compute, rk_device_graph_data(d->graph, model->lengths),
                       batch->device + d->layout.lengths,
                       (size_t)(n * d->layout.n_sequences) * sizeof(float));
    if (d->tables) note(r, rk_device_tables_look_up(d->tables, d->compute, d->activations));
}

static void give_losses(rk_model *model, const rk_device_batch *batch, int64_t n) {
    rk_device_step *d = model->device_step;
    const char *at = batch->device;
    bool learns = model->log_variances >= 0;
    rk_device_losses(
        d->tasks, d->compute,
        &(rk_device_loss_args){
            .n = n,
            .logits = rk_device_graph_data(d->graph, model->logits),
            .gradient = rk_device_graph_gradient(d->graph, model->logits),
            .labels = (const float *)(at + d->layout.labels),
            .weights = (const float *)(at + d->layout.weights),
            .scales = (const double *)(at + d->layout.scales),
            .shares = (const double *)(at + d->layout.shares),
            .log_variances = learns ? rk_device_graph_data(d->graph, model->log_variances) : NULL,
            .log_variance_gradient = learns ? rk_device_graph_gradient(d->graph, model->log_variances) : NULL,
            .losses = d->found,
            .stop = rk_stop_of(d->found, model->n_tasks),
            .stop_bit = RK_CUDA_STOP_LOSS});
}

static void give_training(void *context, int64_t n) {
    recording *r = context;
    rk_model *model = r->model;
    rk_device_step *d = model->device_step;
    uint32_t *stop = rk_stop_of(d->found, model->n_tasks);
    rk_stream_fill(d->compute, d->found, 0, d->step_status_bytes);
    give_inputs(r, n);
    int64_t n_rest = model->retrieval ? rk_retrieval_local_negatives(model, r->batch->n_pairs, n) : 0;
    rk_device_graph_forward(d->graph, d->compute, n, n_rest, r->total, true,
                            (const int64_t *)(r->batch->device + d->layout.step));
    if (model->retrieval)
        rk_device_retrieval_loss(model, r->batch, n);
    else
        give_losses(model, r->batch, n);
    rk_device_graph_backward(d->graph, d->compute, n);
    if (d->tables) note(r, rk_device_tables_measure(d->tables, d->compute, d->gradients, stop));
    if (d->comm) { /* the rest is no rank's alone: rk_device_data_parallel_end_step */
        if (d->tables) note(r, rk_device_tables_sum(d->tables, d->compute, d->gradients));
        return;
    }
    rk_device_graph_measure(d->graph, d->compute, stop);
    if (d->tables) note(r, rk_device_tables_apply(d->tables, d->compute, d->gradients, stop));
    rk_device_graph_update(d->graph, d->compute, stop);
    rk_stream_download(d->compute, d->step_status, d->found, d->step_status_bytes);
}

static void give_prediction(void *context, int64_t n) {
    recording *r = context;
    rk_model *model = r->model;
    rk_device_step *d = model->device_step;
    give_inputs(r, n);
    rk_device_graph_forward(d->graph, d->compute, n, 0, n, false, NULL);
    rk_device_predictions(d->tasks, d->compute, n, rk_device_graph_data(d->graph, model->logits),
                          d->predictions);
    rk_stream_download(d->compute, d->told, d->predictions, (size_t)(n * model->n_tasks) * sizeof *d->told);
}

/* The batch on its way, in the place of the one before the last; one that fails leaves the other, which a
 * step under way may read, the one at hand. */
static rk_status begin(rk_model *model, const rk_batch_part *from, int64_t first, int64_t n,
                       const rk_ids *ids, const rk_pairs *pairs, bool training) {
    rk_device_step *d = model->device_step;
    uint64_t began = rk_trace_begin();
    rk_status status = RK_OK;
    int next = !d->now;
    d->totals[next] = from->total;
    rk_device_batch_send(&d->layout, model, from, first, n, ids, training, pairs, d->upload,
                         &d->batches[next]);
    if (d->sharded)
        status = rk_device_sharded_dedup(d->sharded, d->upload, d->routing, n, ids, training);
    else if (d->tables)
        status = rk_device_tables_dedup(d->tables, d->upload, d->routing, n, NULL, ids, training);
    rk_trace_end(began, "send");
    if (status == RK_OK) d->now = next;
    return status;
}

static rk_status check_ids(const rk_device_step *d) {
    if (d->sharded) return rk_device_sharded_check(d->sharded);
    return d->tables ? rk_device_tables_check(d->tables) : RK_OK;
}

/* The oldest batch's rows, or where they are. */
static rk_status take_rows(const rk_device_step *d) {
    if (d->sharded) return rk_device_sharded_fetch(d->sharded, d->compute);
    return d->tables ? rk_device_tables_prepare(d->tables, d->compute) : RK_OK;
}

static void end_batch(const rk_device_step *d, bool applied) {
    if (d->sharded)
        rk_device_sharded_done(d->sharded, applied);
    else if (d->tables)
        rk_device_tables_done(d->tables, applied);
}

/* All of the batch's work, as one graph of launches where it is kept. */
static rk_status give(rk_model *model, bool training) {
    rk_device_step *d = model->device_step;
    rk_device_batch *batch = &d->batches[d->now];
    recording r = {model, batch, d->totals[d->now], RK_OK};
    rk_stream_wait(d->compute, d->upload);
    RK_TRY(take_rows(d));
    if (training) RK_TRY(rk_device_graph_prepare(d->graph, d->compute));
    if (training) rk_device_batch_number(&d->layout, model, d->compute, batch);
    rk_launch_cache *kept = &(training ? d->training : d->prediction)[d->now];
    if (training && (rk_device_graph_sums(d->graph) || d->all_vectors)) /* ranks meet on the way */
        give_training(&r, batch->view.n);
    else
        RK_TRY(rk_launch_cache_run(kept, d->compute, batch->view.n,
                                   training ? give_training : give_prediction, &r));
    RK_TRY(r.status);
    return training && d->comm ? rk_device_data_parallel_end_step(model) : RK_OK;
}

/* Nothing is given to the device of a batch whose ids are wrong. */
static rk_status launch(rk_model *model, bool training) {
    rk_device_step *d = model->device_step;
    uint64_t began = rk_trace_begin();
    rk_status status = check_ids(d);
    rk_trace_end(began, "wait for ids");
    began = rk_trace_begin();
    if (status == RK_OK && training && d->comm) status = rk_device_data_parallel_begin_control(model);
    if (status == RK_OK) status = give(model, training);
    if (status != RK_OK) end_batch(d, false);
    rk_trace_end(began, "launch");
    return status;
}

static rk_status sum_losses(const rk_model *model, const double *step_status, double *loss) {
    const rk_device_step *d = model->device_step;
    if (!model->retrieval)
        return rk_model_sum_micro_batches(model, &d->batches[d->running].view, step_status, 1, loss);
    *loss = step_status[0];
    return isfinite(*loss) ? RK_OK : rk_retrieval_not_finite(model, *loss);
}

/* What was not finite here, in the CPU's order and words. */
static rk_status find_not_finite(rk_model *model, double *loss) {
    rk_device_step *d = model->device_step;
    uint32_t stop = *rk_stop_of(d->step_status, model->n_tasks), own = *rk_stop_of(d->own, model->n_tasks);
    if (own) RK_TRY(sum_losses(model, d->own, loss));
    bool lost = stop & RK_CUDA_STOP_LOSS; /* another rank's loss, of which all sums are no numbers */
    rk_status status =
        stop & RK_CUDA_STOP_DENSE && !lost ? rk_device_graph_check(d->graph, d->compute) : RK_OK;
    if (status == RK_OK && own & RK_CUDA_STOP_ROWS && !lost)
        status = rk_device_tables_check_gradients(d->tables);
    return status == RK_NOT_FINITE ? rk_error_context(status, "step %lld", (long long)model->step) : status;
}

/* Over ranks the first one's, in the same words on all. */
static rk_status name_not_finite(rk_model *model, double *loss) {
    rk_status status = find_not_finite(model, loss);
    if (model->device_step->comm) status = rk_comm_agree(model->data_parallel->trainers, status);
    return status == RK_OK
               ? rk_error(RK_INTERNAL, "the device found a number that was not finite, and then did not")
               : status;
}

static rk_status await_step(rk_model *model) {
    rk_device_step *d = model->device_step;
    if (!d->comm) return rk_stream_sync(d->compute);
    RK_TRY(rk_device_data_parallel_end_control(model));
    return rk_device_comm_wait(d->comm, d->compute);
}

/* The step status of the step that is under way. */
static rk_status finish(rk_model *model, double *loss) {
    rk_device_step *d = model->device_step;
    uint64_t began = rk_trace_begin();
    rk_status status = await_step(model);
    rk_trace_end(began, "wait for the device");
    double found = NAN;
    bool stopped = *rk_stop_of(d->step_status, model->n_tasks) != 0;
    if (status == RK_OK)
        status = stopped ? name_not_finite(model, &found) : sum_losses(model, d->step_status, &found);
    d->under_way = false;
    rk_device_graph_done(d->graph, status == RK_OK);
    end_batch(d, status == RK_OK);
    if (status != RK_OK) return rk_model_skip(model, status, loss);
    model->step++;
    *loss = found;
    return RK_OK;
}

rk_status rk_device_step_train(rk_model *model, const rk_batch_part *part, const rk_ids *ids,
                               const rk_pairs *pairs, double *loss) {
    rk_device_step *d = model->device_step;
    double found = NAN;
    RK_TRY(begin(model, part, 0, part->batch.n, ids, pairs, true));
    rk_status status = d->under_way ? finish(model, &found) : RK_OK;
    if (status != RK_OK) {
        end_batch(d, false);
        return status;
    }
    RK_TRY(launch(model, true));
    d->running = d->now;
    d->under_way = d->home_is_old = true;
    if (!d->late) RK_TRY(finish(model, &found));
    *loss = found;
    return RK_OK;
}

rk_status rk_device_step_drain(rk_model *model, double *loss, bool *left) {
    *left = model->device_step->under_way;
    return *left ? finish(model, loss) : RK_OK;
}

/* What is in the midst of a step is nobody else's. */
static rk_status need_drained(const rk_device_step *d) {
    RK_FAIL_IF(d->under_way, RK_INVALID_ARGUMENT, "a batch that was begun is not trained on; drain it first");
    return RK_OK;
}

static rk_status predict(rk_model *model, const rk_batch *batch, int64_t first, int64_t n,
                         const rk_ids *ids) {
    rk_device_step *d = model->device_step;
    rk_batch_part whole = rk_batch_whole(batch);
    RK_TRY(need_drained(d));
    RK_TRY(begin(model, &whole, first, n, ids, NULL, false));
    RK_TRY(launch(model, false));
    uint64_t began = rk_trace_begin();
    rk_status status = d->comm ? rk_device_comm_wait(d->comm, d->compute) : rk_stream_sync(d->compute);
    rk_trace_end(began, "wait for the device");
    end_batch(d, false);
    return status;
}

rk_status rk_device_step_predict(rk_model *model, const rk_batch *batch, int64_t first, int64_t n,
                                 const rk_ids *ids, float *predictions) {
    RK_TRY(predict(model, batch, first, n, ids));
    memcpy(predictions, model->device_step->told, (size_t)(n * model->n_tasks) * sizeof *predictions);
    return RK_OK;
}

rk_status rk_device_step_vectors(rk_model *model, const rk_batch *batch, const rk_ids *ids, rk_value value,
                                 rk_real *out) {
    rk_device_step *d = model->device_step;
    RK_TRY(predict(model, batch, 0, batch->n, ids));
    return rk_device_read(d->device, out, rk_device_graph_data(d->graph, value),
                          (size_t)(batch->n * rk_graph_shape(model->graph, value).cols) * sizeof *out);
}

rk_status rk_device_step_metrics(rk_model *model, bool binary, int64_t n, const rk_metric_sample *samples,
                                 const int64_t *groups, rk_metric_parts *out) {
    rk_device_step *d = model->device_step;
    RK_TRY(need_drained(d));
    return rk_device_metrics(d->device, d->compute, binary, n, samples, groups, out);
}

rk_status rk_device_step_item_positions(rk_model *model, const rk_item_positions *args) {
    rk_device_step *d = model->device_step;
    RK_TRY(need_drained(d));
    return rk_device_item_positions(d->device, d->compute, args, 0);
}

rk_status rk_device_step_flush(rk_model *model) {
    rk_device_step *d = model->device_step;
    RK_TRY(need_drained(d));
    if (!d->home_is_old) return RK_OK;
    if (d->sharded)
        RK_TRY(rk_device_sharded_flush(d->sharded));
    else if (d->tables)
        RK_TRY(rk_device_tables_flush(d->tables));
    RK_TRY(rk_device_graph_flush(d->graph));
    d->home_is_old = false;
    return RK_OK;
}

rk_status rk_device_step_reload(rk_model *model) {
    rk_device_step *d = model->device_step;
    RK_TRY(need_drained(d));
    if (d->sharded)
        RK_TRY(rk_device_sharded_reload(d->sharded));
    else if (d->tables)
        RK_TRY(rk_device_tables_reload(d->tables));
    RK_TRY(rk_device_graph_reload(d->graph));
    d->home_is_old = false;
    return RK_OK;
}
