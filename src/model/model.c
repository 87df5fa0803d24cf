/* A model at work: training steps, predictions, state. */
#include "model/model.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/finite.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/trace.h"
#include "model/model_parts.h"

static rk_status check_batch(const rk_model *model, const rk_batch *batch, bool labelled) {
    RK_FAIL_IF(batch->n < 0 || (labelled && batch->n == 0), RK_INVALID_ARGUMENT, "a batch of %lld samples", (long long)batch->n);
    RK_FAIL_IF(batch->n_dense != model->n_dense, RK_INVALID_ARGUMENT, "the batch has %d dense numbers a sample, the model takes %d", batch->n_dense,
               model->n_dense);
    RK_FAIL_IF(batch->n_features != model->n_features, RK_INVALID_ARGUMENT, "the batch has %d features, the model takes %d", batch->n_features,
               model->n_features);
    RK_FAIL_IF((batch->n && batch->n_dense && !batch->dense) || (batch->n_features && !batch->features), RK_INVALID_ARGUMENT,
               "the batch's dense numbers or features are missing");
    if (!labelled) return RK_OK;
    RK_FAIL_IF(batch->n > model->max_batch, RK_INVALID_ARGUMENT, "a batch of %lld samples, the model takes up to %lld", (long long)batch->n,
               (long long)model->max_batch);
    RK_FAIL_IF(!batch->labels, RK_INVALID_ARGUMENT, "training needs labels");
    RK_FAIL_IF(batch->n_tasks != model->n_tasks, RK_INVALID_ARGUMENT, "the batch has %d labels a sample, the model has %d tasks", batch->n_tasks, model->n_tasks);
    for (int64_t i = 0; batch->sample_weights && i < batch->n; i++)
        RK_FAIL_IF(batch->sample_weights[i] < 0, RK_BAD_DATA, "row %lld: the sample weight %g is negative", (long long)(batch->first_row + i),
                   batch->sample_weights[i]);
    return RK_OK;
}

/* Ids of samples [first, first+n), as a batch of their own; offsets [n+1] takes the place of theirs where they do not begin at 0. */
static rk_ids slice_ids(rk_ids ids, int64_t first, int64_t n, int64_t *offsets) {
    if (first == 0) return ids;
    int64_t skipped = ids.offsets ? ids.offsets[first] : first * ids.ids_per_sample;
    ids.ids += skipped;
    if (ids.weights) ids.weights += skipped;
    for (int64_t i = 0; ids.offsets && i <= n; i++) offsets[i] = ids.offsets[first + i] - skipped;
    if (ids.offsets) ids.offsets = offsets;
    return ids;
}

/* Samples [first, first+n) of the batch, made ready to be looked up. offsets: [n_lookups, n+1], unused where first is 0. */
static rk_status route(rk_model *model, const rk_batch *batch, int64_t first, int64_t n, int64_t *offsets, bool training) {
    uint64_t begin = rk_trace_begin();
    rk_status status = RK_OK;
    for (int32_t f = 0; f < model->n_lookups; f++)
        model->ids[f] = slice_ids(batch->features[model->lookups[f].source], first, n, first ? offsets + f * (n + 1) : NULL);
    if (model->embeddings) status = rk_embeddings_route(model->embeddings, n, model->ids, training);
    if (model->n_dense) rk_graph_bind(model->graph, model->dense, (rk_real *)(size_t)(batch->dense + first * model->n_dense), NULL);
    rk_trace_end(begin, "route");
    return status;
}

/* One run of the graph over a batch, or over a piece of it. */
typedef struct model_run {
    rk_model *model;
    const rk_batch *batch;
    double weight;      /* of all samples, in training */
    float *predictions; /* [n, n_tasks] of the piece, in prediction */
    atomic_bool not_finite; /* a gradient of an embedding */
    atomic_size_t n_updated; /* pieces of the batch before */
} model_run;

static rk_status look_up_block(void *context, const rk_run *run) {
    const rk_model *model = ((const model_run *)context)->model;
    uint64_t begin = rk_trace_begin();
    for (int32_t f = 0; f < model->n_lookups; f++) {
        const rk_model_lookup *at = &model->lookups[f];
        rk_activation to = {rk_run_data(run, at->input) + at->first, rk_graph_shape(model->graph, at->input).cols, NULL};
        rk_embeddings_look_up(model->embeddings, run->training, f, run->first, run->first + run->n, &to);
    }
    rk_trace_end(begin, "lookup");
    return RK_OK;
}

/* Why a loss is no number: the first value of the batch that is none, if it came from there. */
static rk_status loss_not_finite(const rk_model *model, const rk_batch *batch, const char *task, double loss) {
    for (int64_t i = 0; i < batch->n; i++) {
        long long row = (long long)(batch->first_row + i);
        for (int32_t t = 0; t < model->n_tasks; t++) {
            float label = batch->labels[i * model->n_tasks + t];
            RK_FAIL_IF(!isfinite(label), RK_NOT_FINITE, "row %lld: label '%s' is %g", row, model->tasks[t].name, label);
        }
        RK_FAIL_IF(batch->sample_weights && !isfinite(batch->sample_weights[i]), RK_NOT_FINITE, "row %lld: the sample weight is %g", row,
                   batch->sample_weights[i]);
        for (int32_t d = 0; d < model->n_dense; d++)
            RK_FAIL_IF(!isfinite(batch->dense[i * model->n_dense + d]), RK_NOT_FINITE, "row %lld: dense number %d is %g", row, d,
                       batch->dense[i * model->n_dense + d]);
    }
    rk_error(RK_NOT_FINITE, "step %lld: the loss of '%s' is %g", (long long)model->step, task, loss);
    return rk_error_hint(RK_NOT_FINITE, "a lower learning rate or gradient clipping may keep the model from diverging");
}

static rk_status block_loss(void *context, const rk_run *run) {
    const model_run *r = context;
    const rk_model *model = r->model;
    double *losses = model->losses + rk_graph_block_number(run) * (size_t)model->n_tasks;
    for (int32_t t = 0; t < model->n_tasks; t++) {
        rk_loss_args args = {
            .kind = model->tasks[t].loss,
            .n = run->n,
            .n_tasks = model->n_tasks,
            .task = t,
            .logits = rk_run_data(run, model->logits),
            .labels = r->batch->labels + run->first * model->n_tasks,
            .weights = r->batch->sample_weights ? r->batch->sample_weights + run->first : NULL,
            .scale = r->weight > 0 ? model->tasks[t].weight / r->weight : 0,
            .gradient = rk_run_gradient(run, model->logits),
        };
        rk_loss(&args, &losses[t]);
    }
    return RK_OK;
}

/* The embeddings' gradients, which stand side by side in a block, to where each feature's are together; checked while they are in the cache. */
static rk_status take_gradients(void *context, const rk_run *run) {
    model_run *r = context;
    uint64_t begin = rk_trace_begin();
    for (int32_t f = 0; f < r->model->n_lookups; f++) {
        const rk_model_lookup *at = &r->model->lookups[f];
        const rk_real *from = rk_run_gradient(run, at->input) + at->first;
        const rk_activation *gradient = &r->model->gradients[r->model->now][f];
        int64_t width = gradient->stride, from_stride = rk_graph_shape(r->model->graph, at->input).cols;
        rk_real *to = gradient->data + run->first * width;
        for (int64_t s = 0; s < run->n; s++) memcpy(to + s * width, from + s * from_stride, (size_t)width * sizeof *to);
        if (!rk_all_finite(to, run->n * width)) atomic_store_explicit(&r->not_finite, true, memory_order_relaxed);
    }
    rk_trace_end(begin, "gradients");
    return RK_OK;
}

/* The blocks' shares of each task's loss, in order. */
static rk_status sum_losses(const rk_model *model, const rk_batch *batch, double *out) {
    size_t n_blocks = rk_graph_n_blocks(model->graph, batch->n);
    double sum = 0;
    for (int32_t t = 0; t < model->n_tasks; t++) {
        double loss = 0;
        for (size_t b = 0; b < n_blocks; b++) loss += model->losses[b * (size_t)model->n_tasks + (size_t)t];
        if (!isfinite(loss)) return loss_not_finite(model, batch, model->tasks[t].name, loss);
        sum += loss;
    }
    *out = sum;
    return RK_OK;
}

static void update_piece(void *context, size_t piece) {
    model_run *r = context;
    rk_embeddings_update_piece(r->model->embeddings, piece);
    atomic_fetch_add_explicit(&r->n_updated, 1, memory_order_relaxed);
}

/* Where updates are stale, lookups of the whole batch, and then its dense part beside the update of the batch before. */
static rk_status compute_gradients(model_run *r, double *loss) {
    rk_model *model = r->model;
    RK_TRY(route(model, r->batch, 0, r->batch->n, NULL, true));
    rk_graph_hooks hooks = {.context = r, .read = look_up_block, .loss = block_loss, .take = take_gradients};
    if (model->stale && model->embeddings) {
        uint64_t begin = rk_trace_begin();
        rk_embeddings_look_up_all(model->embeddings, true, model->activations);
        rk_trace_end(begin, "lookup");
        hooks.read = NULL;
        hooks.beside = update_piece;
        hooks.n_beside = rk_embeddings_n_pieces(model->embeddings);
    }
    rk_status status = rk_graph_train(model->graph, r->batch->n, model->step, &hooks);
    if (hooks.n_beside && atomic_load(&r->n_updated) == hooks.n_beside) rk_embeddings_land(model->embeddings); /* not if the run failed before it began */
    RK_TRY(status);
    return sum_losses(model, r->batch, loss);
}

/* The update of the rows, or the launch of one; the collection's own check names a gradient that is not finite. */
static rk_status update_rows(model_run *r) {
    rk_model *model = r->model;
    RK_TRY(rk_embeddings_launch(model->embeddings, model->gradients[model->now], !atomic_load(&r->not_finite)));
    if (model->stale)
        model->now = !model->now;
    else
        rk_embeddings_update_all(model->embeddings);
    return RK_OK;
}

void rk_model_settle(rk_model *model) {
    if (model->embeddings) rk_embeddings_update_all(model->embeddings);
}

/* Both updates or none: all gradients are checked before a row or a parameter is written. */
static rk_status update(model_run *r) {
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
    RK_FAIL_IF(!model->optimizer, RK_INVALID_ARGUMENT, "the model was built for prediction, not for training");
    RK_TRY(check_batch(model, batch, true));
    double found;
    for (size_t i = 0; i < model->n_statistics; i++) memcpy(model->statistics[i].kept, model->statistics[i].live, model->statistics[i].n_bytes);
    model_run r = {.model = model, .batch = batch, .weight = rk_loss_weight(batch->n, batch->sample_weights)};
    rk_status status = compute_gradients(&r, &found);
    if (status == RK_OK) status = update(&r);
    if (status == RK_OK) {
        model->step++;
        *loss = found;
        return RK_OK;
    }
    for (size_t i = 0; i < model->n_statistics; i++) memcpy(model->statistics[i].live, model->statistics[i].kept, model->statistics[i].n_bytes);
    if (status != RK_NOT_FINITE || !model->skip_not_finite) return status;
    model->n_not_finite++;
    if ((model->n_not_finite & (model->n_not_finite - 1)) == 0) /* the 1st, 2nd, 4th, ... */
        rk_log(RK_LOG_WARNING, "a training step was skipped (%lld so far): %s", (long long)model->n_not_finite, rk_last_error());
    *loss = NAN;
    return RK_OK;
}

static rk_status block_predictions(void *context, const rk_run *run) {
    const model_run *r = context;
    int32_t n_tasks = r->model->n_tasks;
    const rk_real *logits = rk_run_data(run, r->model->logits);
    float *out = r->predictions + run->first * n_tasks;
    for (int64_t i = 0; i < run->n; i++)
        for (int32_t t = 0; t < n_tasks; t++) out[i * n_tasks + t] = (float)rk_loss_prediction(r->model->tasks[t].loss, logits[i * n_tasks + t]);
    return RK_OK;
}

static rk_status predict_piece(rk_model *model, const rk_batch *batch, int64_t first, int64_t n, int64_t *offsets, float *out) {
    rk_status status = route(model, batch, first, n, offsets, false);
    if (status != RK_OK) return first ? rk_error_context(status, "samples from %lld on", (long long)first) : status;
    model_run r = {.model = model, .batch = batch, .predictions = out};
    rk_graph_hooks hooks = {.context = &r, .read = look_up_block, .loss = block_predictions};
    return rk_graph_forward(model->graph, n, false, model->step, &hooks);
}

/* Longer batches go through in pieces, aside until all have gone well: a failure leaves `predictions` untouched. */
rk_status rk_model_predict(rk_model *model, const rk_batch *batch, float *predictions) {
    RK_TRY(check_batch(model, batch, false));
    rk_model_settle(model);
    if (batch->n == 0) return RK_OK;
    if (batch->n <= model->max_batch) return predict_piece(model, batch, 0, batch->n, NULL, predictions);
    float *aside = NULL;
    int64_t *offsets = NULL;
    size_t n_values = (size_t)(batch->n * model->n_tasks);
    rk_status status;
    RK_GOTO(rk_alloc(n_values, sizeof *aside, &aside));
    RK_GOTO(rk_alloc((size_t)model->n_lookups * (size_t)(model->max_batch + 1), sizeof *offsets, &offsets));
    for (int64_t first = 0; first < batch->n; first += model->max_batch) {
        int64_t n = batch->n - first < model->max_batch ? batch->n - first : model->max_batch;
        RK_GOTO(predict_piece(model, batch, first, n, offsets, aside + first * model->n_tasks));
    }
    memcpy(predictions, aside, n_values * sizeof *aside);
done:
    rk_free(aside);
    rk_free(offsets);
    return status;
}

int32_t rk_model_n_tasks(const rk_model *model) {
    return model->n_tasks;
}

int64_t rk_model_step(const rk_model *model) {
    return model->step;
}

rk_embeddings *rk_model_embeddings(rk_model *model) {
    rk_model_settle(model);
    return model->embeddings;
}

int64_t rk_model_n_not_finite(const rk_model *model) {
    return model->n_not_finite;
}

rk_status rk_model_state(rk_model *model, rk_state *state) {
    rk_model_settle(model);
    if (model->embeddings) RK_TRY(rk_embeddings_state(model->embeddings, state));
    RK_TRY(rk_graph_state(model->graph, state));
    if (model->optimizer) RK_TRY(rk_dense_optimizer_state(model->optimizer, state));
    RK_TRY(rk_state_add(state, "steps_not_finite", RK_STATE_I64, 1, 0, &model->n_not_finite));
    return rk_state_add(state, "step", RK_STATE_I64, 1, 0, &model->step);
}

void rk_model_scale_learning_rate(rk_model *model, double factor) {
    if (model->optimizer) rk_dense_optimizer_scale_learning_rate(model->optimizer, factor);
    /* Fails for a factor that is no positive number only, which no schedule yields. */
    if (model->embeddings) (void)rk_embeddings_scale_learning_rate(model->embeddings, factor);
}
