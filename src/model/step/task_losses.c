/* The losses of a model's tasks: of a block of samples, of micro-batches, of the batch. */
#include <math.h>
#include <string.h>

#include "model/step/local_batch.h"
#include "model/step/ranks.h"

double rk_model_task_weight(const rk_model_task *task, int64_t step) {
    return task->weight * pow(1 - task->weight_decay_rate, (double)step);
}

void rk_model_sum_sample_weights(const rk_model *model, const rk_rank_batch *rank_batch, double *weights) {
    const rk_batch *batch = &rank_batch->batch;
    for (int32_t t = 0; t < model->n_tasks; t++)
        weights[t] =
            rank_batch->task_samples
                ? rank_batch->task_samples[t]
                : rk_loss_sum_weights(batch->n, batch->sample_weights,
                                      model->tasks[t].optional ? batch->labels + t : NULL, model->n_tasks);
}

/* Uncertainty weighting (Kendall et al. 2018), s = log of the task's variance: a sample's loss l becomes
 * exp(-s) l + s/2, and exp(-s) l / 2 + s/2 for squares. What a block has of s/2 is by its part of the task's
 * samples; the gradient to s stands in the block's first sample. */
static double uncertainty_weight_of_task(const rk_model_task *task, double log_variance) {
    return exp(-log_variance) * (task->loss == RK_LOSS_MSE ? 0.5 : 1);
}

static void add_uncertainty_penalty(const rk_loss_args *args, double log_variance, double whole, double *loss,
                                    rk_real *gradient) {
    double share = rk_loss_sum_weights(args->n, args->weights,
                                       args->optional ? args->labels + args->task : NULL, args->n_tasks) /
                   whole;
    *gradient = (rk_real)(share / 2 - *loss);
    *loss += share * log_variance / 2;
}

/* A block's part of each task's loss, in model->losses, and the gradients of the graph's outputs. */
static rk_status compute_losses_of_block(void *context, const rk_run *run) {
    const rk_model_run *r = context;
    const rk_model *model = r->model;
    double *losses = model->losses + rk_graph_block_number_of_run(run) * (size_t)model->n_tasks;
    bool learns = model->log_variances >= 0;
    const rk_real *log_variances = learns ? rk_run_data(run, model->log_variances) : NULL;
    rk_real *slopes = learns ? rk_run_gradient(run, model->log_variances) : NULL;
    if (learns) memset(slopes, 0, (size_t)(run->n * model->n_tasks) * sizeof *slopes);
    for (int32_t t = 0; t < model->n_tasks; t++) {
        const rk_model_task *task = &model->tasks[t];
        double whole = r->task_samples[t], weight = rk_model_task_weight(task, run->step);
        bool learned = learns && task->weight > 0 && whole > 0;
        rk_loss_args args = {
            .kind = task->loss,
            .n = run->n,
            .n_tasks = model->n_tasks,
            .task = t,
            .logits = rk_run_data(run, model->logits),
            .labels = r->batch->labels + run->first * model->n_tasks,
            .weights = r->batch->sample_weights ? r->batch->sample_weights + run->first : NULL,
            .optional = task->optional,
            .smoothing = task->smoothing,
            .scale = whole > 0
                         ? weight *
                               (learned ? uncertainty_weight_of_task(task, (double)log_variances[t]) : 1) /
                               whole
                         : 0,
            .gradient = rk_run_gradient(run, model->logits),
        };
        rk_loss_compute(&args, &losses[t]);
        if (learned) add_uncertainty_penalty(&args, (double)log_variances[t], whole, &losses[t], &slopes[t]);
    }
    return RK_OK;
}

/* The samples of this rank. */
static rk_status fill_local_samples(rk_model *model, const rk_rank_batch *rank_batch, int64_t step,
                                    rk_local_batch *batch) {
    (void)step;
    int64_t begin, end;
    rk_ranks_local_samples(model->ranks, rank_batch->total, &begin, &end);
    RK_TRY(rk_local_batch_fill(model, rank_batch, begin, end - begin, true, batch));
    rk_model_sum_sample_weights(model, rank_batch, batch->task_samples);
    return RK_OK;
}

static void hook_task_losses(const rk_model_run *run, rk_graph_hooks *hooks) {
    (void)run;
    hooks->loss = compute_losses_of_block;
}

static const char *task_loss_name(const rk_model *model, int32_t task) {
    return rk_loss_name(model->tasks[task].loss);
}

static uint64_t task_loss_extra_bytes(const rk_model *model) {
    (void)model;
    return 0;
}

static void mark_task_outputs(rk_model *model) {
    (void)model;
}

static rk_status create_task_losses(rk_model *model, const rk_model_options *options) {
    (void)model, (void)options;
    return RK_OK;
}

static rk_status make_prediction_piece(const rk_model *model, const rk_rank_batch *rank_batch, int64_t first,
                                       int64_t n, rk_retrieval_batch *memory, rk_rank_batch *out) {
    (void)model, (void)memory;
    *out = (rk_rank_batch){.batch = rank_batch->batch, .total = n, .base = rank_batch->base - first};
    return RK_OK;
}

const rk_loss_ops rk_task_losses = {.name = task_loss_name,
                                    .bytes = task_loss_extra_bytes,
                                    .mark_outputs = mark_task_outputs,
                                    .create = create_task_losses,
                                    .fill = fill_local_samples,
                                    .hook = hook_task_losses,
                                    .piece = make_prediction_piece};

/* Blocks are in the order of the samples, and micro-batches are whole numbers of them. */
void rk_model_sum_losses_of_blocks(const rk_model *model, int64_t n) {
    size_t n_blocks = rk_graph_n_blocks(model->graph, n),
           a_micro_batch = rk_graph_blocks_of_micro_batch(model->graph), n_tasks = (size_t)model->n_tasks;
    for (size_t b = 0; b < n_blocks; b++)
        for (size_t t = 0; t < n_tasks; t++) {
            double *to = &model->micro_batch_losses[b / a_micro_batch * n_tasks + t],
                   loss = model->losses[b * n_tasks + t];
            *to = b % a_micro_batch ? *to + loss : loss;
        }
}

/* Why a loss is no number: the first value of the batch that is none, if it came from there. */
static rk_status loss_not_finite_error(const rk_model *model, const rk_batch *batch, const char *task,
                                       double loss) {
    for (int64_t i = 0; i < batch->n; i++) {
        long long row = (long long)(batch->first_row + i);
        for (int32_t t = 0; t < model->n_tasks && !rk_model_is_two_tower(model); t++) {
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
    rk_error(RK_NOT_FINITE, "the loss of '%s' is %g", task, isnan(loss) ? NAN : loss); /* -nan is no news */
    if (rk_model_launched_step(model) == 0)
        return rk_error_hint(RK_NOT_FINITE,
                             "this is the first step: the dense features may be too large (set normalize: "
                             "true), or the rows' initial values");
    return rk_error_hint(RK_NOT_FINITE,
                         "a lower learning rate or gradient clipping may keep the model from diverging");
}

rk_status rk_model_sum_losses_of_micro_batches(const rk_model *model, const rk_batch *batch,
                                               const double *losses, size_t n, double *out) {
    double sum = 0;
    for (int32_t t = 0; t < model->n_tasks; t++) {
        double loss = 0;
        for (size_t s = 0; s < n; s++) loss += losses[s * (size_t)model->n_tasks + (size_t)t];
        if (!isfinite(loss))
            return rk_model_name_step(rk_model_launched_step(model),
                                      loss_not_finite_error(model, batch, model->tasks[t].name, loss));
        sum += loss;
    }
    *out = sum;
    return RK_OK;
}
