/* A model at work: training steps, predictions, state. */
#include "model/model.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/finite.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread/trace.h"
#include "batch/ids.h"
#include "model/cuda/device_step.h"
#include "model/retrieval/retrieval.h"
#include "model/step/data_parallel.h"

/* Each lookup's ids of samples [first, first+n) of the batch. offsets: [n_lookups, n+1], unused where first
 * is 0. */
static void take_ids(rk_model *model, const rk_batch *batch, int64_t first, int64_t n, int64_t *offsets) {
    for (int32_t f = 0; f < model->n_lookups; f++)
        model->ids[f] = rk_ids_slice(&batch->features[model->lookups[f].source], first, n,
                                     first ? offsets + f * (n + 1) : NULL);
}

/* The same samples, made ready to be looked up. */
static rk_status dedup(rk_model *model, const rk_batch *batch, int64_t first, int64_t n, int64_t *offsets,
                       bool training) {
    uint64_t begin = rk_trace_begin();
    rk_status status = RK_OK;
    take_ids(model, batch, first, n, offsets);
    if (model->embeddings) status = rk_embeddings_dedup(model->embeddings, n, model->ids, training);
    if (model->n_dense)
        rk_graph_bind(model->graph, model->dense, (rk_real *)(size_t)(batch->dense + first * model->n_dense),
                      NULL);
    rk_trace_end(begin, "route");
    return status;
}

/* What was looked up early, from where this block's gradients go later. */
static void copy_block(const rk_activation *from, const rk_run *run, const rk_activation *to) {
    int64_t width = from->stride;
    for (int64_t s = 0; s < run->n; s++)
        memcpy(to->data + s * to->stride, from->data + (run->first + s) * width,
               (size_t)width * sizeof *to->data);
}

static rk_status look_up_block(void *context, const rk_run *run) {
    const rk_model *model = ((const rk_model_run *)context)->model;
    uint64_t begin = rk_trace_begin();
    for (int32_t f = 0; f < model->n_lookups; f++) {
        const rk_model_lookup *at = &model->lookups[f];
        rk_activation to = {rk_run_data(run, at->input) + at->first,
                            rk_graph_shape(model->graph, at->input).cols, NULL};
        if (run->training && model->activations[f].data)
            copy_block(&model->activations[f], run, &to);
        else
            rk_embeddings_look_up(model->embeddings, run->training, f, run->first, run->first + run->n, &to);
    }
    rk_model_read_lengths(context, run);
    rk_trace_end(begin, "lookup");
    return RK_OK;
}

static rk_status read_lengths(void *context, const rk_run *run) {
    rk_model_read_lengths(context, run);
    return RK_OK;
}

static void update_piece(void *context, size_t piece) {
    rk_model_run *r = context;
    rk_embeddings_update_piece(r->model->embeddings, piece);
    atomic_fetch_add_explicit(&r->n_updated, 1, memory_order_relaxed);
}

/* All of the batch where updates are stale, else what pays. */
static void look_up_early(rk_model *model) {
    uint64_t begin = rk_trace_begin();
    if (model->stale) {
        rk_stale_rows_put_back(&model->stale_rows);
        rk_embeddings_look_up_all(model->embeddings, true, model->activations);
        rk_stale_rows_take_away(&model->stale_rows);
    } else {
        memcpy(model->activations, model->gradients[model->now],
               (size_t)model->n_lookups * sizeof *model->activations);
        rk_embeddings_look_up_early(model->embeddings, model->activations);
    }
    rk_trace_end(begin, "lookup");
}

/* Where updates are stale, the dense part beside the update of the batch before. */
static rk_status compute_gradients(rk_model_run *r, double *loss) {
    rk_model *model = r->model;
    RK_TRY(dedup(model, r->batch, 0, r->batch->n, NULL, true));
    rk_graph_hooks hooks = rk_model_hooks(r, true);
    hooks.read = look_up_block;
    if (model->embeddings) look_up_early(model);
    if (model->stale && model->embeddings) {
        hooks.read = read_lengths;
        hooks.beside = update_piece;
        hooks.n_beside = rk_embeddings_n_pieces(model->embeddings);
    }
    rk_status status = rk_graph_train(model->graph, r->batch->n, model->step, &hooks);
    if (hooks.n_beside && atomic_load(&r->n_updated) == hooks.n_beside)
        rk_embeddings_complete(model->embeddings); /* not if the run failed before it began */
    RK_TRY(status);
    rk_model_sum_blocks(model, r->batch->n);
    return rk_model_sum_micro_batches(model, r->batch, model->micro_batch_losses,
                                      rk_graph_n_micro_batches(model->graph, r->batch->n), loss);
}

/* The update of the rows, or the launch of one; the collection's own check names a gradient that is not
 * finite. */
static rk_status update_rows(rk_model_run *r) {
    rk_model *model = r->model;
    RK_TRY(
        rk_embeddings_launch(model->embeddings, model->gradients[model->now], !atomic_load(&r->not_finite)));
    if (model->stale)
        model->now = !model->now;
    else
        rk_embeddings_update_all(model->embeddings);
    return RK_OK;
}

rk_status rk_model_flush(rk_model *model) {
    if (model->device_step) return rk_device_step_flush(model);
    RK_TRY(rk_stale_rows_keep(&model->stale_rows, model->stale_rows.n_looked_up - 1));
    if (model->embeddings) rk_embeddings_update_all(model->embeddings);
    return model->data_parallel && model->data_parallel->sharded
               ? rk_sharded_flush(model->data_parallel->sharded)
               : RK_OK;
}

rk_status rk_model_reload(rk_model *model) {
    rk_stale_rows_forget(&model->stale_rows);
    if (model->data_parallel && model->data_parallel->sharded)
        rk_sharded_forget(model->data_parallel->sharded);
    return model->device_step ? rk_device_step_reload(model) : RK_OK;
}

/* Both updates or none: all gradients are checked before a row or a parameter is written. */
static rk_status update(rk_model_run *r) {
    rk_model *model = r->model;
    uint64_t begin = rk_trace_begin();
    rk_status status = rk_dense_optimizer_check(model->optimizer);
    if (status == RK_OK && model->embeddings) status = update_rows(r);
    rk_trace_end(begin, "update rows");
    begin = rk_trace_begin();
    if (status == RK_OK) rk_dense_optimizer_apply(model->optimizer);
    rk_trace_end(begin, "update dense");
    return status == RK_NOT_FINITE ? rk_error_context(status, "step %lld", (long long)model->step) : status;
}

rk_status rk_model_train(rk_model *model, const rk_batch *batch, double *loss) {
    rk_batch_part whole = rk_batch_whole(batch);
    return rk_model_train_part(model, &whole, loss);
}

rk_status rk_model_train_part(rk_model *model, const rk_batch_part *part, double *loss) {
    const rk_batch *batch = &part->batch;
    RK_FAIL_IF(!model->optimizer, RK_INVALID_ARGUMENT,
               "the model was built for prediction, not for training");
    RK_TRY(rk_model_check_batch(model, part, true));
    if (model->data_parallel) return rk_data_parallel_train(model, part, loss);
    rk_batch extended;
    const rk_pairs *pairs = NULL;
    if (model->retrieval) RK_TRY(rk_retrieval_lengthen(model, batch, &extended, &pairs));
    if (model->retrieval) batch = &extended;
    if (model->device_step) {
        take_ids(model, batch, 0, batch->n, NULL);
        rk_batch_part whole = rk_batch_whole(batch);
        return rk_device_step_train(model, &whole, model->ids, pairs, loss);
    }
    double found;
    rk_model_keep_statistics(model);
    rk_model_count_samples(model, part, model->task_samples);
    rk_model_run r = {.model = model,
                      .batch = batch,
                      .ids = model->ids,
                      .task_samples = model->task_samples,
                      .pairs = pairs};
    rk_status status = compute_gradients(&r, &found);
    if (status == RK_OK) status = update(&r);
    if (status == RK_OK) {
        model->step++;
        *loss = found;
        return RK_OK;
    }
    return rk_model_undo(model, status, loss);
}

rk_status rk_model_forward(rk_model *model, const rk_batch *batch, rk_graph_hooks hooks) {
    RK_TRY(dedup(model, batch, 0, batch->n, NULL, false));
    hooks.read = look_up_block;
    return rk_graph_forward(model->graph, batch->n, false, model->step, &hooks);
}

rk_status rk_model_vectors_of_device(rk_model *model, const rk_batch *batch, rk_value value, rk_real *out) {
    take_ids(model, batch, 0, batch->n, NULL);
    return rk_device_step_vectors(model, batch, model->ids, value, out);
}

static rk_status predict_here(rk_model *model, const rk_batch *batch, int64_t first, int64_t n,
                              int64_t *offsets, float *out) {
    RK_TRY(dedup(model, batch, first, n, offsets, false));
    rk_model_run r = {.model = model, .batch = batch, .ids = model->ids, .predictions = out};
    rk_graph_hooks hooks = rk_model_hooks(&r, false);
    hooks.read = look_up_block;
    return rk_graph_forward(model->graph, n, false, model->step, &hooks);
}

static rk_status predict_piece(rk_model *model, const rk_batch *batch, int64_t first, int64_t n,
                               int64_t *offsets, float *out) {
    rk_status status;
    if (model->device_step) {
        take_ids(model, batch, first, n, offsets);
        status = rk_device_step_predict(model, batch, first, n, model->ids, out);
    } else {
        status = predict_here(model, batch, first, n, offsets, out);
    }
    return status != RK_OK && first ? rk_error_context(status, "samples from %lld on", (long long)first)
                                    : status;
}

rk_status rk_model_predict(rk_model *model, const rk_batch *batch, float *predictions) {
    rk_batch_part whole = rk_batch_whole(batch);
    return rk_model_predict_part(model, &whole, predictions);
}

/* Longer batches go through in pieces, aside until all have gone well: a failure leaves `predictions`
 * untouched. */
rk_status rk_model_predict_part(rk_model *model, const rk_batch_part *part, float *predictions) {
    const rk_batch *batch = &part->batch;
    RK_TRY(rk_model_check_batch(model, part, false));
    if (part->total == 0) return RK_OK;
    if (model->data_parallel) return rk_data_parallel_predict(model, part, predictions);
    if (!model->device_step) RK_TRY(rk_model_flush(model));
    rk_batch extended;
    if (model->retrieval) RK_TRY(rk_retrieval_extend(model, batch, NULL, 0, batch->n, &extended));
    if (model->retrieval) batch = &extended;
    if (batch->n <= model->max_batch) return predict_piece(model, batch, 0, batch->n, NULL, predictions);
    float *scratch = NULL;
    int64_t *offsets = NULL;
    size_t n_values = (size_t)(batch->n * model->n_tasks);
    rk_status status;
    RK_GOTO(rk_alloc(n_values, sizeof *scratch, &scratch));
    RK_GOTO(rk_alloc((size_t)model->n_lookups * (size_t)(model->max_batch + 1), sizeof *offsets, &offsets));
    for (int64_t first = 0; first < batch->n; first += model->max_batch) {
        int64_t n = batch->n - first < model->max_batch ? batch->n - first : model->max_batch;
        RK_GOTO(predict_piece(model, batch, first, n, offsets, scratch + first * model->n_tasks));
    }
    memcpy(predictions, scratch, n_values * sizeof *scratch);
done:
    rk_free(scratch);
    rk_free(offsets);
    return status;
}

int32_t rk_model_n_tasks(const rk_model *model) {
    return model->n_tasks;
}

int64_t rk_model_step(const rk_model *model) {
    return model->step;
}

bool rk_model_has_device(const rk_model *model) {
    return model->device_step != NULL;
}

/* Over ranks all have it of their GPUs or none, so that all have the same. */
rk_status rk_model_metrics(void *context, bool binary, int64_t n, const rk_metric_sample *samples,
                           const int64_t *groups, rk_metric_parts *out) {
    rk_model *model = context;
    rk_status status = rk_device_step_metrics(model, binary, n, samples, groups, out);
    return rk_comm_agree(rk_model_trainers(model), status);
}

rk_status rk_model_item_positions(rk_model *model, const rk_item_positions *args) {
    return rk_device_step_item_positions(model, args);
}

rk_embeddings *rk_model_embeddings(rk_model *model) {
    if (model->is_outline) return NULL;
    (void)rk_model_flush(model); /* a GPU that failed says so at the next step */
    return model->embeddings;
}

int64_t rk_model_n_not_finite(const rk_model *model) {
    return model->n_not_finite;
}

rk_status rk_model_state(rk_model *model, rk_state *state) {
    RK_TRY(rk_model_flush(model));
    if (model->embeddings) RK_TRY(rk_embeddings_state(model->embeddings, state));
    for (int32_t t = 0; model->stale_rows.embeddings && t < rk_embeddings_n_tables(model->embeddings); t++)
        RK_TRY(rk_stale_rows_state(&model->stale_rows, t, state));
    if (model->data_parallel && model->data_parallel->sharded)
        RK_TRY(rk_sharded_state(model->data_parallel->sharded, state));
    size_t first = state->n;
    if (!model->graph) return RK_OK; /* of a rank that only holds rows */
    RK_TRY(rk_graph_state(model->graph, state));
    if (model->optimizer) RK_TRY(rk_dense_optimizer_state(model->optimizer, state));
    RK_TRY(rk_state_add(state, "steps_not_finite", RK_STATE_I64, 1, 0, &model->n_not_finite));
    RK_TRY(rk_state_add(state, "step", RK_STATE_I64, 1, 0, &model->step));
    for (size_t i = first; i < state->n; i++) state->entries[i].shared = true;
    return RK_OK;
}

rk_status rk_model_read_stale(rk_model *model, const char *name, int64_t n, int64_t record_bytes,
                              const void *records) {
    if (model->data_parallel && model->data_parallel->sharded)
        return rk_sharded_read_stale(model->data_parallel->sharded, name, n, record_bytes, records);
    return rk_stale_rows_read(&model->stale_rows, name, n, record_bytes, records);
}

void rk_model_scale_learning_rate(rk_model *model, double factor) {
    if (model->optimizer) rk_dense_optimizer_scale_learning_rate(model->optimizer, factor);
    /* Fails for a factor that is no positive number only, which no schedule yields. */
    if (model->embeddings) (void)rk_embeddings_scale_learning_rate(model->embeddings, factor);
    if (model->data_parallel && model->data_parallel->sharded)
        (void)rk_sharded_scale_learning_rate(model->data_parallel->sharded, factor);
}
