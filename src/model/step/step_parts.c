/* The parts of a training step that are the same for one process and for many. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "model/step/local_batch.h"
#include "model/step/ranks.h"

rk_status rk_model_check_batch(const rk_model *model, const rk_rank_batch *rank_batch, bool labelled) {
    const rk_batch *batch = &rank_batch->batch;
    RK_FAIL_IF(model->is_outline, RK_INVALID_ARGUMENT,
               "the model is an outline without rows, which can only be described\nhint: create it with "
               "rk_model_create");
    RK_FAIL_IF(batch->n < 0 || (labelled && rank_batch->total == 0), RK_INVALID_ARGUMENT,
               "invalid number of samples in a batch: %lld", (long long)rank_batch->total);
    RK_FAIL_IF(rank_batch->base < 0 || batch->n > rank_batch->total - rank_batch->base ||
                   (!model->ranks->comm && batch->n < rank_batch->total),
               RK_INVALID_ARGUMENT, "samples %lld to %lld are an invalid part of a batch of %lld",
               (long long)rank_batch->base, (long long)(rank_batch->base + batch->n),
               (long long)rank_batch->total);
    RK_FAIL_IF(batch->n_dense != model->n_dense, RK_INVALID_ARGUMENT,
               "the batch has %d dense numbers a sample, but the model takes %d", batch->n_dense,
               model->n_dense);
    RK_FAIL_IF(batch->n_features != model->n_features, RK_INVALID_ARGUMENT,
               "the batch has %d features, but the model takes %d", batch->n_features, model->n_features);
    RK_FAIL_IF((batch->n && batch->n_dense && !batch->dense) || (batch->n_features && !batch->features),
               RK_INVALID_ARGUMENT, "the batch's dense numbers or features are missing");
    if (!labelled) return RK_OK;
    RK_FAIL_IF(rank_batch->total > model->max_batch, RK_INVALID_ARGUMENT,
               "the batch has %lld samples, but the model was created for up to %lld",
               (long long)rank_batch->total, (long long)model->max_batch);
    bool pairs = rk_model_learns_pairs(model);
    RK_FAIL_IF(!batch->labels && !pairs, RK_INVALID_ARGUMENT, "training needs labels");
    RK_FAIL_IF(batch->n_tasks != model->n_tasks && !pairs, RK_INVALID_ARGUMENT,
               "the batch has %d labels a sample, but the model has %d tasks", batch->n_tasks,
               model->n_tasks);
    for (int64_t i = 0; batch->sample_weights && i < batch->n; i++)
        RK_FAIL_IF(batch->sample_weights[i] < 0, RK_BAD_DATA, "row %lld: the sample weight %g is negative",
                   (long long)(batch->first_row + i), batch->sample_weights[i]);
    return RK_OK;
}

/* Why a loss is no number: the first value of the batch that is none, if it came from there. */
static rk_status loss_not_finite(const rk_model *model, const rk_batch *batch, const char *task,
                                 double loss) {
    for (int64_t i = 0; i < batch->n; i++) {
        long long row = (long long)(batch->first_row + i);
        for (int32_t t = 0; t < model->n_tasks && !rk_model_learns_pairs(model); t++) {
            float label = batch->labels[i * model->n_tasks + t];
            if (model->tasks[t].optional && isnan(label)) continue;
            RK_FAIL_IF(!isfinite(label), RK_NOT_FINITE, "row %lld: label '%s' is %g", row,
                       model->tasks[t].name, label);
        }
        RK_FAIL_IF(batch->sample_weights && !isfinite(batch->sample_weights[i]), RK_NOT_FINITE,
                   "row %lld: the sample weight is %g", row, batch->sample_weights[i]);
        for (int32_t d = 0; d < model->n_dense; d++)
            RK_FAIL_IF(!isfinite(batch->dense[i * model->n_dense + d]), RK_NOT_FINITE,
                       "row %lld: dense number %d is %g", row, d, batch->dense[i * model->n_dense + d]);
    }
    rk_error(RK_NOT_FINITE, "step %lld: the loss of '%s' is %g", (long long)model->step, task,
             isnan(loss) ? NAN : loss); /* -nan is no news */
    if (model->step == 0)
        return rk_error_hint(RK_NOT_FINITE,
                             "this is the first step: the dense features may be too large (set normalize: "
                             "true), or the rows' initial values");
    return rk_error_hint(RK_NOT_FINITE,
                         "a lower learning rate or gradient clipping may keep the model from diverging");
}

/* Blocks are in the order of the samples, and micro-batches are whole numbers of them. */
void rk_model_sum_blocks(const rk_model *model, int64_t n) {
    size_t n_blocks = rk_graph_n_blocks(model->graph, n),
           a_micro_batch = rk_graph_blocks_of_micro_batch(model->graph), n_tasks = (size_t)model->n_tasks;
    for (size_t b = 0; b < n_blocks; b++)
        for (size_t t = 0; t < n_tasks; t++) {
            double *to = &model->micro_batch_losses[b / a_micro_batch * n_tasks + t],
                   loss = model->losses[b * n_tasks + t];
            *to = b % a_micro_batch ? *to + loss : loss;
        }
}

rk_status rk_model_sum_micro_batches(const rk_model *model, const rk_batch *batch, const double *losses,
                                     size_t n, double *out) {
    double sum = 0;
    for (int32_t t = 0; t < model->n_tasks; t++) {
        double loss = 0;
        for (size_t s = 0; s < n; s++) loss += losses[s * (size_t)model->n_tasks + (size_t)t];
        if (!isfinite(loss)) return loss_not_finite(model, batch, model->tasks[t].name, loss);
        sum += loss;
    }
    *out = sum;
    return RK_OK;
}

/* As the lookup has it: negative ids are dropped, the rest is cut to the feature's length. */
void rk_model_write_lengths(const rk_model *model, const rk_ids *of, int64_t first, int64_t n, rk_real *out) {
    int32_t width = model->lengths >= 0 ? rk_graph_shape(model->graph, model->lengths).cols : 0;
    for (int32_t f = 0; f < model->n_lookups && width; f++) {
        const rk_model_lookup *at = &model->lookups[f];
        const rk_ids *ids = &of[f];
        rk_real *to = out + at->length_column;
        for (int64_t s = first; s < first + n && at->length; s++, to += width) {
            int64_t begin = rk_ids_begin(ids, s), end = rk_ids_begin(ids, s + 1);
            int32_t length = 0;
            for (int64_t i = begin; i < end && length < at->length; i++) length += ids->ids[i] >= 0;
            *to = (rk_real)length;
        }
    }
}

void rk_model_read_lengths(const rk_model_run *r, const rk_run *run) {
    if (r->model->lengths >= 0)
        rk_model_write_lengths(r->model, r->ids, run->first, run->n, rk_run_data(run, r->model->lengths));
}

static rk_status block_loss(void *context, const rk_run *run) {
    rk_model_block_losses(context, run);
    return RK_OK;
}

static rk_status fill(rk_model *model, const rk_rank_batch *rank_batch, int64_t step, rk_local_batch *batch) {
    (void)step;
    int64_t begin, end;
    rk_ranks_span(model->ranks, rank_batch->total, &begin, &end);
    return rk_local_batch_fill(model, rank_batch, begin, end - begin, true, batch);
}

static void hook(const rk_model_run *run, rk_graph_hooks *hooks) {
    (void)run;
    hooks->loss = block_loss;
}

const rk_loss_ops rk_task_losses = {fill, hook};

void rk_model_keep_statistics(rk_model *model) {
    for (size_t i = 0; i < model->n_statistics; i++)
        memcpy(model->statistics[i].kept, model->statistics[i].live, model->statistics[i].n_bytes);
}

rk_status rk_model_restore(rk_model *model, rk_status status) {
    for (size_t i = 0; i < model->n_statistics; i++)
        memcpy(model->statistics[i].live, model->statistics[i].kept, model->statistics[i].n_bytes);
    return status;
}

rk_status rk_model_skip(rk_model *model, rk_status status, double *loss) {
    if (status != RK_NOT_FINITE || !model->skip_not_finite) return status;
    model->n_not_finite++;
    if ((model->n_not_finite & (model->n_not_finite - 1)) == 0) /* the 1st, 2nd, 4th, ... */
        rk_log(RK_LOG_WARNING, "a training step was skipped (%lld so far): %s",
               (long long)model->n_not_finite, rk_last_error());
    *loss = NAN;
    return RK_OK;
}
