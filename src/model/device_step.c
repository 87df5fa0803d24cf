/* A step on a GPU: ids and numbers go up on one stream, ids are checked and sorted on a second, and all else runs on a third, as one graph of launches where batches of
 * one size follow each other. The host waits twice: for the check of the ids, before anything uses them, and for the verdict at the end: the losses, and whether anything
 * was not finite, in which case the device has updated nothing. */
#include "model/device_step.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/trace.h"
#include "embedding/device_tables.h"
#include "model/device_batch.h"
#include "model/device_launches.h"
#include "nn/device_graph.h"
#include "nn/device_loss.h"

enum { N_FLIGHTS = 2 };

/* Why nobody updates (*stop). */
enum { STOP_LOSS = 1, STOP_ROWS = 2, STOP_DENSE = 4 };

struct rk_device_step {
    rk_device *device;
    rk_stream *upload, *routing, *compute;
    rk_device_graph *graph;
    rk_device_tables *tables;          /* NULL: the model has none */
    rk_device_batch_layout layout;
    rk_device_batch batches[N_FLIGHTS];
    int now;                           /* of those, where the last batch was put */
    rk_device_tasks *tasks;
    rk_activation *activations, *gradients; /* [n_lookups] in the graph's inputs */
    double *found;                     /* device: [n_tasks] losses, then `stop` */
    double *verdict;                   /* the same, pinned */
    size_t verdict_bytes;
    float *predictions, *told;         /* [max_batch, n_tasks]: device; pinned */
    rk_kept_launches training[N_FLIGHTS], prediction[N_FLIGHTS];
    bool late;
    bool under_way;                    /* a step that was given to the device and not yet judged, */
    int running;                       /* of this batch */
    bool home_is_old;                  /* since the last settle, steps were trained */
};

static uint32_t *stop_of(double *found, int32_t n_tasks) {
    return (uint32_t *)(found + n_tasks);
}

/* What is recorded into a graph of launches: everything that it reads is at the same place in each step, but for the flight. */
typedef struct recording {
    rk_model *model;
    const rk_device_batch *batch;
} recording;

static void give_inputs(rk_model *model, const rk_device_batch *batch, int64_t n) {
    rk_device_step *d = model->device_step;
    if (model->n_dense) rk_stream_copy(d->compute, rk_device_graph_data(d->graph, model->dense), batch->device + d->layout.dense, (size_t)(n * model->n_dense) * sizeof(float));
    if (d->layout.n_sequences)
        rk_stream_copy(d->compute, rk_device_graph_data(d->graph, model->lengths), batch->device + d->layout.lengths, (size_t)(n * d->layout.n_sequences) * sizeof(float));
    if (d->tables) rk_device_tables_look_up(d->tables, d->compute, d->activations);
}

static void give_losses(rk_model *model, const rk_device_batch *batch, int64_t n) {
    rk_device_step *d = model->device_step;
    const char *at = batch->device;
    bool learns = model->log_variances >= 0;
    rk_device_losses(d->tasks, d->compute,
                     &(rk_device_loss_args){.n = n,
                                            .logits = rk_device_graph_data(d->graph, model->logits),
                                            .gradient = rk_device_graph_gradient(d->graph, model->logits),
                                            .labels = (const float *)(at + d->layout.labels),
                                            .weights = (const float *)(at + d->layout.weights),
                                            .scales = (const double *)(at + d->layout.scales),
                                            .wholes = (const double *)(at + d->layout.wholes),
                                            .log_variances = learns ? rk_device_graph_data(d->graph, model->log_variances) : NULL,
                                            .log_variance_gradient = learns ? rk_device_graph_gradient(d->graph, model->log_variances) : NULL,
                                            .losses = d->found,
                                            .stop = stop_of(d->found, model->n_tasks),
                                            .stop_bit = STOP_LOSS});
}

static void give_training(void *context, int64_t n) {
    const recording *r = context;
    rk_model *model = r->model;
    rk_device_step *d = model->device_step;
    uint32_t *stop = stop_of(d->found, model->n_tasks);
    rk_stream_fill(d->compute, d->found, 0, d->verdict_bytes);
    give_inputs(model, r->batch, n);
    rk_device_graph_forward(d->graph, d->compute, n, true, (const int64_t *)(r->batch->device + d->layout.step));
    give_losses(model, r->batch, n);
    rk_device_graph_backward(d->graph, d->compute, n);
    rk_device_graph_measure(d->graph, d->compute, stop);
    if (d->tables) rk_device_tables_measure(d->tables, d->compute, d->gradients, stop);
    if (d->tables) rk_device_tables_apply(d->tables, d->compute, d->gradients, stop);
    rk_device_graph_update(d->graph, d->compute, stop);
    rk_stream_download(d->compute, d->verdict, d->found, d->verdict_bytes);
}

static void give_prediction(void *context, int64_t n) {
    const recording *r = context;
    rk_model *model = r->model;
    rk_device_step *d = model->device_step;
    give_inputs(model, r->batch, n);
    rk_device_graph_forward(d->graph, d->compute, n, false, NULL);
    rk_device_predictions(d->tasks, d->compute, n, rk_device_graph_data(d->graph, model->logits), d->predictions);
    rk_stream_download(d->compute, d->told, d->predictions, (size_t)(n * model->n_tasks) * sizeof *d->told);
}

/* The batch on its way, in the place of the one before the last. */
static rk_status begin(rk_model *model, const rk_batch *from, int64_t first, int64_t n, bool training) {
    rk_device_step *d = model->device_step;
    uint64_t began = rk_trace_begin();
    d->now = !d->now;
    rk_device_batch_send(&d->layout, model, from, first, n, model->ids, training, d->upload, &d->batches[d->now]);
    rk_status status = d->tables ? rk_device_tables_route(d->tables, d->upload, d->routing, n, model->ids, training) : RK_OK;
    rk_trace_end(began, "send");
    return status;
}

/* Nothing is given to the device of a batch whose ids are wrong. */
static rk_status launch(rk_model *model, bool training) {
    rk_device_step *d = model->device_step;
    rk_device_batch *batch = &d->batches[d->now];
    uint64_t began = rk_trace_begin();
    rk_status status = d->tables ? rk_device_tables_check(d->tables) : RK_OK;
    rk_trace_end(began, "wait for ids");
    if (status != RK_OK) {
        rk_device_tables_done(d->tables, false);
        return status;
    }
    began = rk_trace_begin();
    rk_kept_launches *kept = &(training ? d->training : d->prediction)[d->now];
    recording r = {model, batch};
    rk_stream_wait(d->compute, d->upload);
    if (d->tables) RK_TRY(rk_device_tables_prepare(d->tables, d->compute));
    if (training) RK_TRY(rk_device_graph_prepare(d->graph, d->compute));
    if (training) rk_device_batch_number(&d->layout, model, d->compute, batch);
    rk_launch_size size = {batch->view.n, d->tables ? rk_device_tables_generation(d->tables) : 0};
    status = rk_kept_launches_run(kept, d->compute, size, training ? give_training : give_prediction, &r);
    rk_trace_end(began, "launch");
    return status;
}

/* What was not finite, in the CPU's order and words. */
static rk_status name_not_finite(rk_model *model, double *loss) {
    rk_device_step *d = model->device_step;
    uint32_t stop = *stop_of(d->verdict, model->n_tasks);
    RK_TRY(rk_model_sum_shards(model, &d->batches[d->running].view, d->verdict, 1, loss));
    rk_status status = stop & STOP_DENSE ? rk_device_graph_check(d->graph, d->compute) : RK_OK;
    if (status == RK_OK && stop & STOP_ROWS) status = rk_device_tables_check_gradients(d->tables);
    if (status == RK_OK) status = rk_error(RK_INTERNAL, "the device found a number that was not finite, and then did not");
    return status == RK_NOT_FINITE ? rk_error_context(status, "step %lld", (long long)model->step) : status;
}

/* The verdict of the step that is under way. */
static rk_status finish(rk_model *model, double *loss) {
    rk_device_step *d = model->device_step;
    uint64_t began = rk_trace_begin();
    rk_status status = rk_stream_sync(d->compute);
    rk_trace_end(began, "wait for the device");
    double found = NAN;
    bool stopped = *stop_of(d->verdict, model->n_tasks) != 0;
    if (status == RK_OK) status = stopped ? name_not_finite(model, &found) : rk_model_sum_shards(model, &d->batches[d->running].view, d->verdict, 1, &found);
    d->under_way = false;
    rk_device_graph_done(d->graph, status == RK_OK);
    if (d->tables) rk_device_tables_done(d->tables, status == RK_OK);
    if (status != RK_OK) return rk_model_skip(model, status, loss);
    model->step++;
    *loss = found;
    return RK_OK;
}

rk_status rk_device_step_train(rk_model *model, const rk_batch *batch, double *loss) {
    rk_device_step *d = model->device_step;
    double found = NAN;
    RK_TRY(begin(model, batch, 0, batch->n, true));
    rk_status status = d->under_way ? finish(model, &found) : RK_OK;
    if (status != RK_OK) {
        if (d->tables) rk_device_tables_done(d->tables, false);
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

rk_status rk_device_step_predict(rk_model *model, const rk_batch *batch, int64_t first, int64_t n, float *predictions) {
    rk_device_step *d = model->device_step;
    RK_FAIL_IF(d->under_way, RK_INVALID_ARGUMENT, "a batch that was begun is not trained on; drain it first");
    RK_TRY(begin(model, batch, first, n, false));
    RK_TRY(launch(model, false));
    uint64_t began = rk_trace_begin();
    rk_status status = rk_stream_sync(d->compute);
    rk_trace_end(began, "wait for the device");
    if (d->tables) rk_device_tables_done(d->tables, false);
    RK_TRY(status);
    memcpy(predictions, d->told, (size_t)(n * model->n_tasks) * sizeof *predictions);
    return RK_OK;
}

rk_status rk_device_step_settle(rk_model *model) {
    rk_device_step *d = model->device_step;
    if (!d->home_is_old) return RK_OK;
    if (d->tables) RK_TRY(rk_device_tables_settle(d->tables));
    RK_TRY(rk_device_graph_settle(d->graph));
    d->home_is_old = false;
    return RK_OK;
}

rk_status rk_device_step_refresh(rk_model *model) {
    rk_device_step *d = model->device_step;
    if (d->tables) RK_TRY(rk_device_tables_refresh(d->tables));
    RK_TRY(rk_device_graph_refresh(d->graph));
    d->home_is_old = false;
    return RK_OK;
}

/* Where each feature's vectors stand in the graph's inputs. */
static rk_status wire(rk_model *model) {
    rk_device_step *d = model->device_step;
    RK_TRY(rk_alloc((size_t)model->n_lookups, sizeof *d->activations, &d->activations));
    RK_TRY(rk_alloc((size_t)model->n_lookups, sizeof *d->gradients, &d->gradients));
    for (int32_t f = 0; f < model->n_lookups; f++) {
        const rk_model_lookup *at = &model->lookups[f];
        int64_t stride = rk_graph_shape(model->graph, at->input).cols;
        d->activations[f] = (rk_activation){rk_device_graph_data(d->graph, at->input) + at->first, stride, NULL};
        d->gradients[f] = (rk_activation){rk_device_graph_gradient(d->graph, at->input) + at->first, stride, NULL};
    }
    return RK_OK;
}

static rk_status create_tasks(rk_model *model) {
    rk_device_task *tasks;
    RK_TRY(rk_alloc((size_t)model->n_tasks, sizeof *tasks, &tasks));
    for (int32_t t = 0; t < model->n_tasks; t++)
        tasks[t] = (rk_device_task){.kind = model->tasks[t].loss, .optional = model->tasks[t].optional, .learned = model->log_variances >= 0 && model->tasks[t].weight > 0};
    rk_status status = rk_device_tasks_create(model->device_step->device, model->n_tasks, model->max_batch, tasks, &model->device_step->tasks);
    rk_free(tasks);
    return status;
}

/* Unless the run file says how much: all of the tables if they fit beside the dense part, with a tenth of what is free left for their scratch; else what does. */
static rk_status budget_of(const rk_model *model, const rk_model_device *options, uint64_t *out) {
    rk_device_info info;
    uint64_t wanted = 0;
    RK_TRY(rk_device_query(model->device_step->device, &info));
    for (int32_t t = 0; t < rk_embeddings_n_tables(model->embeddings); t++) wanted += rk_embeddings_table_bytes(model->embeddings, t);
    uint64_t most = options->memory_bytes ? options->memory_bytes : info.free_bytes / 10 * 9;
    *out = wanted > most ? most : 0;
    rk_log(RK_LOG_INFO, "device: %s, %.1f of %.1f GB free; tables take %.1f GB%s", info.name, (double)info.free_bytes * 1e-9, (double)info.memory_bytes * 1e-9,
           (double)wanted * 1e-9, *out ? ", behind a cache" : "");
    return RK_OK;
}

static rk_status create_tables(rk_model *model, const rk_model_device *options) {
    rk_device_tables_options tables = {.max_batch = model->max_batch};
    RK_TRY(budget_of(model, options, &tables.budget_bytes));
    return rk_device_tables_create(model->embeddings, model->device_step->device, &tables, &model->device_step->tables);
}

static rk_status reserve(rk_model *model) {
    rk_device_step *d = model->device_step;
    size_t n_predictions = (size_t)(model->max_batch * model->n_tasks);
    void *memory;
    for (int i = 0; i < N_FLIGHTS; i++) RK_TRY(rk_device_batch_init(&d->layout, d->device, &d->batches[i]));
    d->verdict_bytes = (size_t)(model->n_tasks + 1) * sizeof *d->verdict;
    RK_TRY(rk_device_alloc(d->device, d->verdict_bytes, &memory));
    d->found = memory;
    RK_TRY(rk_device_alloc_host(d->device, d->verdict_bytes, &memory));
    d->verdict = memory;
    RK_TRY(rk_device_alloc(d->device, n_predictions * sizeof *d->predictions, &memory));
    d->predictions = memory;
    RK_TRY(rk_device_alloc_host(d->device, n_predictions * sizeof *d->told, &memory));
    d->told = memory;
    return RK_OK;
}

rk_status rk_device_step_create(rk_model *model, const rk_model_device *options) {
    rk_device_step *d;
    RK_TRY(rk_alloc(1, sizeof *d, &d));
    model->device_step = d;
    d->late = options->late;
    d->layout = rk_device_batch_plan(model);
    RK_TRY(rk_device_open(options->number, &d->device));
    RK_TRY(rk_stream_create(d->device, &d->upload));
    RK_TRY(rk_stream_create(d->device, &d->routing));
    RK_TRY(rk_stream_create(d->device, &d->compute));
    rk_device_graph_options graph = {.max_batch = model->max_batch, .training = true, .tf32 = options->tf32};
    RK_TRY(rk_device_graph_create(model->graph, model->optimizer, d->device, &graph, &d->graph));
    RK_TRY(create_tasks(model));
    RK_TRY(reserve(model));
    if (model->embeddings) RK_TRY(create_tables(model, options));
    return wire(model);
}

void rk_device_step_free(rk_model *model) {
    rk_device_step *d = model->device_step;
    if (!d) return;
    if (d->compute) (void)rk_stream_sync(d->compute);
    for (int i = 0; i < N_FLIGHTS; i++) {
        rk_kept_launches_release(&d->training[i]);
        rk_kept_launches_release(&d->prediction[i]);
    }
    rk_device_tables_free(d->tables);
    rk_device_tasks_free(d->tasks);
    rk_device_graph_free(d->graph);
    if (d->device) {
        for (int i = 0; i < N_FLIGHTS; i++) rk_device_batch_release(d->device, &d->batches[i]);
        rk_device_free(d->device, d->found);
        rk_device_free_host(d->device, d->verdict);
        rk_device_free(d->device, d->predictions);
        rk_device_free_host(d->device, d->told);
    }
    rk_stream_free(d->upload);
    rk_stream_free(d->routing);
    rk_stream_free(d->compute);
    rk_device_close(d->device);
    rk_free(d->activations);
    rk_free(d->gradients);
    rk_free(d);
    model->device_step = NULL;
}
