/* A step on a GPU. Ids and numbers are sent on one stream; ids are checked and sorted on a second; all else
 * runs on a third, as one CUDA graph while batches have the same size. The host waits twice: for the check
 * of the ids, before they are used, and for the step status at the end, which has the losses and whether a
 * value was not finite. If one was not, the device has updated nothing. */
#include <math.h>
#include <string.h>

#include "base/thread/trace.h"
#include "cuda/dense/dense_optimizer_step.h"
#include "model/cuda/device_retrieval.h"
#include "model/cuda/device_ranks.h"
#include "model/cuda/cuda_engine_internal.h"
#include "model/step/ranks.h"
#include "model/retrieval/retrieval.h"
#include "nn/cuda/device_ranking_positions.h"
#include "nn/cuda/device_metrics.h"
#include "model/step/predict.h"

/* What is recorded into a graph of launches: everything that it reads is at the same place in each step, but
 * for the batch context. */
typedef struct recording {
    rk_model *model;
    const rk_device_batch *batch;
    int64_t total;    /* samples, on all ranks */
    rk_status status; /* the first that is not RK_OK */
} recording;

static void record_enqueue_failure(recording *r, rk_status status) {
    if (r->status == RK_OK) r->status = status;
}

static void enqueue_input_preparation(recording *r, int64_t n) {
    rk_model *model = r->model;
    rk_cuda_engine *d = model->cuda;
    const rk_device_batch *batch = r->batch;
    if (model->n_dense)
        rk_stream_copy(d->compute, rk_device_graph_data(d->graph, model->dense),
                       batch->device + d->layout.dense, (size_t)(n * model->n_dense) * sizeof(float));
    if (d->layout.n_sequences)
        rk_stream_copy(d->compute, rk_device_graph_data(d->graph, model->lengths),
                       batch->device + d->layout.lengths,
                       (size_t)(n * d->layout.n_sequences) * sizeof(float));
    record_enqueue_failure(r, d->store->ops->lookup(d->store, d->compute, d->activations));
}

static void enqueue_training_step(void *context, int64_t n) {
    recording *r = context;
    rk_model *model = r->model;
    rk_cuda_engine *d = model->cuda;
    uint32_t *stop = rk_step_status_stop_flag(d->found, model->n_tasks);
    rk_stream_fill(d->compute, d->found, 0, d->step_status_bytes);
    enqueue_input_preparation(r, n);
    rk_device_graph_forward(d->graph, d->compute, n, d->loss->n_rest(model, r->batch, n), r->total, true,
                            (const int64_t *)(r->batch->device + d->layout.step));
    d->loss->enqueue(model, r->batch, n);
    rk_device_graph_backward(d->graph, d->compute, n);
    record_enqueue_failure(r, d->store->ops->flag_not_finite(d->store, d->compute, d->gradients, stop));
    record_enqueue_failure(r, d->ranks->enqueue(model));
}

static void enqueue_prediction(void *context, int64_t n) {
    recording *r = context;
    rk_model *model = r->model;
    rk_cuda_engine *d = model->cuda;
    enqueue_input_preparation(r, n);
    rk_device_graph_forward(d->graph, d->compute, n, 0, n, false, NULL);
    rk_device_compute_predictions(d->tasks, d->compute, n, rk_device_graph_data(d->graph, model->logits),
                                  d->predictions);
    rk_stream_download(d->compute, d->told, d->predictions, (size_t)(n * model->n_tasks) * sizeof *d->told);
}

/* The batch on its way, in the place of the one before the last; one that fails leaves the other, which a
 * step under way may read, the one at hand. */
static rk_status upload_batch_and_ids(rk_model *model, const rk_local_batch *from, bool training) {
    rk_cuda_engine *d = model->cuda;
    uint64_t began = rk_trace_begin();
    int next = !d->now;
    d->totals[next] = from->total;
    rk_device_batch_upload(&d->layout, model, from, training, d->upload, &d->batches[next]);
    rk_status status =
        d->store->ops->dedup(d->store, d->upload, d->dedup, from->batch.n, from->ids, training);
    rk_trace_end(began, "send");
    if (status == RK_OK) d->now = next;
    return status;
}

static rk_status cuda_engine_begin(rk_model *model, const rk_local_batch *batch) {
    return upload_batch_and_ids(model, batch, true);
}

/* All of the batch's work, as one graph of launches where it is kept. */
static rk_status launch_batch_work(rk_model *model, bool training) {
    rk_cuda_engine *d = model->cuda;
    rk_device_batch *batch = &d->batches[d->now];
    recording r = {model, batch, d->totals[d->now], RK_OK};
    rk_stream_wait_for_stream(d->compute, d->upload);
    RK_TRY(d->store->ops->fetch(d->store, d->compute));
    if (training) RK_TRY(rk_device_graph_prepare_update(d->graph, d->compute));
    if (training) rk_device_batch_set_step_values(&d->layout, model, d->compute, batch);
    rk_launch_cache *kept = &(training ? d->training : d->prediction)[d->now];
    if (training && (rk_device_graph_needs_rank_sums(d->graph) ||
                     (model->loss->extends && model->ranks->is_distributed))) /* ranks meet on the way */
        enqueue_training_step(&r, batch->view.n);
    else
        RK_TRY(rk_launch_cache_run(kept, d->compute, batch->view.n,
                                   training ? enqueue_training_step : enqueue_prediction, &r));
    RK_TRY(r.status);
    return training ? d->ranks->end_step(model) : RK_OK;
}

static void cuda_engine_cancel(rk_model *model) {
    model->cuda->store->ops->end_batch(model->cuda->store, false);
}

/* Nothing is given to the device of a batch whose ids are wrong. */
static rk_status check_ids_and_launch(rk_model *model, bool training) {
    rk_cuda_engine *d = model->cuda;
    uint64_t began = rk_trace_begin();
    rk_status status = d->store->ops->check_ids(d->store);
    rk_trace_end(began, "wait for ids");
    began = rk_trace_begin();
    if (status == RK_OK && training) status = d->ranks->begin(model);
    if (status == RK_OK) status = launch_batch_work(model, training);
    if (status != RK_OK) cuda_engine_cancel(model);
    rk_trace_end(began, "launch");
    return status;
}

/* What was not finite here, in the CPU's order and words. */
static rk_status find_local_non_finite(rk_model *model, double *loss) {
    rk_cuda_engine *d = model->cuda;
    uint32_t stop = *rk_step_status_stop_flag(d->step_status, model->n_tasks),
             own = *rk_step_status_stop_flag(d->own, model->n_tasks);
    if (own) RK_TRY(d->loss->compute_loss(model, &d->batches[d->running].view, d->own, loss));
    bool lost = stop & RK_CUDA_STOP_LOSS; /* another rank's loss, of which all sums are no numbers */
    rk_status status =
        stop & RK_CUDA_STOP_DENSE && !lost ? rk_device_graph_check_step(d->graph, d->compute) : RK_OK;
    if (status == RK_OK && own & RK_CUDA_STOP_ROWS && !lost)
        status = d->store->ops->check_gradients_finite(d->store);
    return rk_model_name_step(model->step, status);
}

/* Over ranks the first one's, in the same words on all. */
static rk_status agree_on_non_finite(rk_model *model, double *loss) {
    rk_status status = find_local_non_finite(model, loss);
    status = rk_comm_agree_on_status(model->ranks->trainers, status);
    return status == RK_OK
               ? rk_error(RK_INTERNAL,
                          "the GPU found a value that is not finite, but a second check found none")
               : status;
}

static rk_status cuda_engine_launch(rk_model *model, const rk_local_batch *batch) {
    (void)batch; /* which was sent */
    RK_TRY(check_ids_and_launch(model, true));
    model->cuda->running = model->cuda->now;
    model->cuda->home_is_old = true;
    return RK_OK;
}

static rk_status wait_for_step(rk_model *model) {
    RK_TRY(model->cuda->ranks->end(model));
    return model->cuda->ranks->wait(model);
}

static rk_status cuda_engine_finish(rk_model *model, const rk_local_batch *batch, double *loss) {
    rk_cuda_engine *d = model->cuda;
    (void)batch; /* whose place the next one may have */
    uint64_t began = rk_trace_begin();
    rk_status status = wait_for_step(model);
    rk_trace_end(began, "wait for the device");
    double found = NAN;
    bool stopped = *rk_step_status_stop_flag(d->step_status, model->n_tasks) != 0;
    if (status == RK_OK)
        status = stopped ? agree_on_non_finite(model, &found)
                         : d->loss->compute_loss(model, &d->batches[d->running].view, d->step_status, &found);
    rk_device_graph_end_step(d->graph, status == RK_OK);
    d->store->ops->end_batch(d->store, status == RK_OK);
    if (status != RK_OK) return rk_model_skip_non_finite_step(model, status, loss);
    model->step++;
    *loss = found;
    return RK_OK;
}

static rk_status forward_on_device(rk_model *model, const rk_local_batch *batch, const rk_output *output,
                                   float *out) {
    rk_cuda_engine *d = model->cuda;
    size_t n_bytes = (size_t)(batch->batch.n * output->width) * sizeof *out;
    RK_TRY(upload_batch_and_ids(model, batch, false));
    RK_TRY(check_ids_and_launch(model, false));
    uint64_t began = rk_trace_begin();
    rk_status status = d->ranks->wait(model);
    rk_trace_end(began, "wait for the device");
    cuda_engine_cancel(model);
    RK_TRY(status);
    if (output->value >= 0)
        return rk_device_download(d->device, out, rk_device_graph_data(d->graph, output->value), n_bytes);
    memcpy(out, d->told, n_bytes);
    return RK_OK;
}

/* A device does one batch after the other, whoever brings them. */
static rk_status cuda_engine_forward(rk_inference *inference, const rk_output *output, float *out) {
    rk_model *model = inference->own;
    RK_FAIL_IF(inference->cancel && atomic_load(inference->cancel), RK_INTERRUPTED, "the run was cancelled");
    pthread_mutex_lock(&model->cuda->turn);
    rk_status status = forward_on_device(model, &inference->batch, output, out);
    pthread_mutex_unlock(&model->cuda->turn);
    return status;
}

static rk_status cuda_engine_metrics(rk_model *model, bool binary, int64_t n, const rk_metric_sample *samples,
                                     const int64_t *groups, rk_metric_totals *out) {
    rk_cuda_engine *d = model->cuda;
    RK_TRY(rk_model_check_no_batch_in_flight(model));
    pthread_mutex_lock(&d->turn);
    rk_status status = rk_device_compute_metrics(d->device, d->compute, binary, n, samples, groups, out);
    pthread_mutex_unlock(&d->turn);
    return status;
}

static rk_status cuda_engine_ranking_positions(rk_model *model, const rk_ranking_positions *args) {
    rk_cuda_engine *d = model->cuda;
    RK_TRY(rk_model_check_no_batch_in_flight(model));
    pthread_mutex_lock(&d->turn);
    rk_status status = rk_device_compute_ranking_positions(d->device, d->compute, args, 0);
    pthread_mutex_unlock(&d->turn);
    return status;
}

static rk_status cuda_engine_flush(rk_model *model) {
    rk_cuda_engine *d = model->cuda;
    RK_TRY(rk_model_check_no_batch_in_flight(model));
    if (!d->home_is_old) return RK_OK;
    RK_TRY(d->store->ops->flush(d->store));
    RK_TRY(rk_device_graph_flush(d->graph));
    d->home_is_old = false;
    return RK_OK;
}

static rk_status cuda_engine_reload(rk_model *model) {
    rk_cuda_engine *d = model->cuda;
    RK_TRY(rk_model_check_no_batch_in_flight(model));
    RK_TRY(d->store->ops->reload(d->store));
    RK_TRY(rk_device_graph_reload(d->graph));
    d->home_is_old = false;
    return RK_OK;
}

const rk_engine_ops rk_cuda_engine_functions = {.free = rk_cuda_engine_free,
                                                .begin = cuda_engine_begin,
                                                .launch = cuda_engine_launch,
                                                .finish = cuda_engine_finish,
                                                .cancel = cuda_engine_cancel,
                                                .forward = cuda_engine_forward,
                                                .metrics = cuda_engine_metrics,
                                                .ranking_positions = cuda_engine_ranking_positions,
                                                .flush = cuda_engine_flush,
                                                .reload = cuda_engine_reload};
