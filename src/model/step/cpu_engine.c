/* On the processor: a block of samples goes through lookup, forward, loss and backward on one thread, while
 * others do the next ones. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/thread/trace.h"
#include "kernels/kernels.h"
#include "model/step/engine.h"
#include "model/step/ranks.h"
#include "model/step/reducer.h"

typedef struct forward_run {
    rk_model_run run; /* first: hooks take the context for it */
    const rk_output *output;
    float *out;
} forward_run;

/* What was looked up early, from where this block's gradients go later. */
static void copy_early_lookups_of_block(const rk_activation *from, const rk_run *run,
                                        const rk_activation *to) {
    int64_t width = from->stride;
    for (int64_t s = 0; s < run->n; s++)
        memcpy(to->data + s * to->stride, from->data + (run->first + s) * width,
               (size_t)width * sizeof *to->data);
}

static rk_status look_up_block(void *context, const rk_run *run) {
    const rk_model_run *r = context;
    const rk_model *model = r->model;
    uint64_t begin = rk_trace_begin();
    if (run->unbound && model->n_dense)
        memcpy(rk_run_data(run, model->dense), r->batch->dense + run->first * model->n_dense,
               (size_t)(run->n * model->n_dense) * sizeof *r->batch->dense);
    for (int32_t f = 0; f < model->n_lookups; f++) {
        const rk_model_lookup *at = &model->lookups[f];
        if (run->context && r->context->features[at->source] != run->of_context) continue;
        rk_activation to = {rk_run_data(run, at->input) + at->first,
                            rk_graph_shape(model->graph, at->input).cols, NULL};
        if (run->training && model->activations[f].data)
            copy_early_lookups_of_block(&model->activations[f], run, &to);
        else
            r->store->ops->lookup(r->store, run->training, f, run->first, run->first + run->n, &to);
    }
    rk_model_fill_lengths(context, run);
    rk_trace_end(begin, "lookup");
    return RK_OK;
}

static rk_status fill_lengths_of_block(void *context, const rk_run *run) {
    rk_model_fill_lengths(context, run);
    return RK_OK;
}

/* Rows of few values take no call each. */
static void copy_rows(const rk_real *from, int64_t stride, int64_t width, int64_t n, rk_real *to) {
    enum { BLOCK = 8, FEW_BLOCKS = 4 };
    if (width == 1)
        for (int64_t s = 0; s < n; s++) to[s] = from[s * stride];
    else if (width % BLOCK == 0 && width <= FEW_BLOCKS * BLOCK)
        for (int64_t s = 0; s < n; s++)
            for (int64_t k = 0; k < width; k += BLOCK)
                memcpy(to + s * width + k, from + s * stride + k, BLOCK * sizeof *to);
    else
        for (int64_t s = 0; s < n; s++) memcpy(to + s * width, from + s * stride, (size_t)width * sizeof *to);
}

/* The embeddings' gradients, which stand side by side in a block, to where each feature's are together;
 * checked while they are in the cache. */
static rk_status scatter_gradients_by_feature(void *context, const rk_run *run) {
    rk_model_run *r = context;
    uint64_t begin = rk_trace_begin();
    for (int32_t f = 0; f < r->model->n_lookups; f++) {
        const rk_model_lookup *at = &r->model->lookups[f];
        const rk_real *from = rk_run_gradient(run, at->input) + at->first;
        const rk_activation *gradient = &r->model->gradients[r->model->now][f];
        int64_t width = gradient->stride, from_stride = rk_graph_shape(r->model->graph, at->input).cols;
        rk_real *to = gradient->data + run->first * width;
        copy_rows(from, from_stride, width, run->n, to);
        bool finite;
        rk_finite_check(to, run->n * width, &finite);
        if (!finite) atomic_store_explicit(&r->not_finite, true, memory_order_relaxed);
    }
    rk_trace_end(begin, "gradients");
    return RK_OK;
}

static void update_row_piece(void *context, size_t piece) {
    rk_model_run *r = context;
    r->model->store->ops->update_piece(r->model->store, piece);
    atomic_fetch_add_explicit(&r->n_updated, 1, memory_order_relaxed);
}

static void bind_dense_input(rk_model *model, const rk_batch *batch) {
    if (model->n_dense)
        rk_graph_bind_value(model->graph, model->dense, (rk_real *)(size_t)batch->dense, NULL);
}

/* Where updates are late, all features, whose activations stand in the graph's inputs; else those that pay,
 * in the place of their gradients until their block takes them. */
static void look_up_whole_batch_early(rk_model *model) {
    uint64_t begin = rk_trace_begin();
    if (!model->stale)
        memcpy(model->activations, model->gradients[model->now],
               (size_t)model->n_lookups * sizeof *model->activations);
    model->store->ops->lookup_early(model->store, model->activations);
    rk_trace_end(begin, "lookup");
}

/* Forward to backward. Where updates are late, beside the update of the batch before. */
static rk_status run_forward_and_backward(rk_model *model, rk_model_run *r, const rk_local_batch *batch,
                                          double *loss) {
    rk_store *store = model->store;
    int64_t n = batch->batch.n;
    RK_TRY(store->ops->wait(store));
    bind_dense_input(model, &batch->batch);
    look_up_whole_batch_early(model);
    rk_graph_hooks hooks = {.context = r,
                            .read = model->stale ? fill_lengths_of_block : look_up_block,
                            .take = scatter_gradients_by_feature,
                            .beside = update_row_piece,
                            .n_beside = store->ops->n_pieces(store)};
    model->loss->hook(r, &hooks);
    model->reducer->ops->hook(model->reducer, batch, &hooks);
    rk_status status = rk_graph_train(model->graph, n, rk_model_launched_step(model), &hooks);
    if (atomic_load(&r->n_updated) == hooks.n_beside) /* not if the run failed before it began */
        store->ops->complete(store);                  /* also of a batch before that used no row */
    RK_TRY(status);
    rk_model_sum_losses_of_blocks(model, n);
    RK_TRY(rk_model_sum_losses_of_micro_batches(model, &batch->batch, model->micro_batch_losses,
                                                rk_graph_n_micro_batches(model->graph, n), loss));
    RK_FAIL_IF(atomic_load(&r->not_finite) && !store->ops->find_not_finite, RK_NOT_FINITE,
               "step %lld: rank %d: the gradient of an embedding is not finite",
               (long long)rk_model_launched_step(model) + 1, model->ranks->rank);
    return RK_OK;
}

static rk_status cpu_engine_begin_batch(rk_model *model, const rk_local_batch *batch) {
    return model->store->ops->begin(model->store, batch->batch.n, batch->ids, true);
}

static rk_status cpu_engine_launch(rk_model *model, const rk_local_batch *batch) {
    rk_store *store = model->store;
    bool late = model->reducer->depth > 0;
    rk_model_save_statistics(model);
    rk_model_run r = {.model = model,
                      .store = store,
                      .batch = &batch->batch,
                      .ids = batch->ids,
                      .task_samples = batch->task_samples,
                      .pairs = &batch->pairs};
    double loss = NAN;
    rk_status status = run_forward_and_backward(model, &r, batch, &loss);
    if (status != RK_OK && (status != RK_NOT_FINITE || late))
        return rk_model_restore_statistics(model, status);
    RK_TRY(model->reducer->ops->post(model->reducer, batch, status, loss));
    if (status == RK_OK) /* beside the sums */
        RK_TRY(store->ops->backward(store, model->gradients[model->now], !atomic_load(&r.not_finite)));
    return late ? rk_model_name_step(rk_model_launched_step(model), store->ops->end(store, true)) : RK_OK;
}

/* All rows or none, as all trainers have found; the reason stays. */
static rk_status end_update_of_rows(rk_model *model, rk_status found) {
    char error[2048];
    if (found != RK_OK) rk_error_copy(error, sizeof error);
    RK_TRY(rk_model_name_step(model->step, model->store->ops->end(model->store, found == RK_OK)));
    return found == RK_OK ? RK_OK : rk_error(found, "%s", error);
}

/* Both updates or none: rows wait for what all trainers have found of the dense part. */
static rk_status cpu_engine_finish(rk_model *model, const rk_local_batch *batch, double *loss) {
    const rk_batch gone = {.n = 0};
    bool late = model->reducer->depth > 0;
    double found = NAN;
    rk_status status = model->reducer->ops->wait(model->reducer, late ? &gone : &batch->batch, &found);
    if (status != RK_OK && (late || status != RK_NOT_FINITE))
        return rk_model_restore_statistics(model, status);
    if (!late) status = end_update_of_rows(model, status);
    if (status != RK_OK)
        return rk_model_skip_non_finite_step(model, rk_model_restore_statistics(model, status), loss);
    uint64_t begin = rk_trace_begin();
    rk_reducer_accept(model->reducer);
    rk_dense_optimizer_apply(model->optimizer);
    rk_trace_end(begin, "update dense");
    if (model->stale) model->now = !model->now;
    model->step++;
    *loss = found;
    return RK_OK;
}

static void cpu_engine_cancel(rk_model *model) {
    (void)model; /* a batch is launched as soon as it may be */
}

static rk_status copy_output_of_block(void *context, const rk_run *run) {
    const forward_run *f = context;
    int64_t width = f->output->width;
    memcpy(f->out + run->first * width, rk_run_data(run, f->output->value),
           (size_t)(run->n * width) * sizeof *f->out);
    return RK_OK;
}

static rk_status predict_block(void *context, const rk_run *run) {
    const forward_run *f = context;
    const rk_model *model = f->run.model;
    int32_t n_tasks = model->n_tasks;
    const rk_real *logits = rk_run_data(run, model->logits);
    float *out = f->out + run->first * n_tasks;
    for (int64_t i = 0; i < run->n; i++)
        for (int32_t t = 0; t < n_tasks; t++)
            out[i * n_tasks + t] =
                (float)rk_loss_prediction_of_logit(model->tasks[t].loss, logits[i * n_tasks + t]);
    return RK_OK;
}

static rk_status cpu_engine_forward(rk_inference *i, const rk_output *output, float *out) {
    rk_store *store = i->store;
    const rk_batch *batch = &i->batch.batch;
    forward_run f = {.run = {.model = i->model,
                             .store = store,
                             .batch = batch,
                             .ids = i->batch.ids,
                             .context = i->context},
                     .output = output,
                     .out = out};
    rk_graph_hooks hooks = {.context = &f,
                            .read = look_up_block,
                            .loss = output->value < 0 ? predict_block : copy_output_of_block,
                            .n_rest = output->of_items ? batch->n : 0,
                            .has_context = i->context != NULL};
    store->ops->set_cancel_flag(store, i->cancel);
    RK_TRY(store->ops->flush(store));
    uint64_t began = rk_trace_begin();
    RK_TRY(store->ops->begin(store, batch->n, i->batch.ids, false));
    rk_trace_end(began, "dedup");
    RK_TRY(store->ops->wait(store));
    if (i->own) bind_dense_input(i->own, batch);
    RK_TRY(i->own ? rk_graph_forward(i->own->graph, batch->n, false, i->own->step, &hooks)
                  : rk_graph_inference_run(i->graph, batch->n, &hooks, i->cancel));
    return store->ops->end(store, false);
}

static rk_status cpu_engine_flush(rk_model *model) {
    return model->store->ops->flush(model->store);
}

static rk_status cpu_engine_reload(rk_model *model) {
    (void)model;
    return RK_OK;
}

static void free_cpu_engine(rk_model *model) {
    for (int i = 0; i < 2; i++) rk_free(model->gradients[i]);
    for (int i = 0; i < 4; i++) rk_pages_free(model->memory[i].pages, model->memory[i].n_bytes);
    rk_free(model->activations);
}

const rk_engine_ops rk_cpu_engine = {.free = free_cpu_engine,
                                     .begin = cpu_engine_begin_batch,
                                     .launch = cpu_engine_launch,
                                     .finish = cpu_engine_finish,
                                     .cancel = cpu_engine_cancel,
                                     .forward = cpu_engine_forward,
                                     .flush = cpu_engine_flush,
                                     .reload = cpu_engine_reload};

static rk_status allocate_engine_memory(rk_model *model, int number, int64_t reals, rk_real **out) {
    struct rk_model_memory *memory = &model->memory[number];
    memory->n_bytes = (size_t)reals * sizeof **out;
    if (!model->is_outline) RK_TRY(rk_pages_alloc(memory->n_bytes, &memory->pages));
    *out = memory->pages;
    return RK_OK;
}

static rk_status allocate_gradients(rk_model *model, const rk_collection_config *collection, int set) {
    int64_t width = 0;
    rk_real *at;
    for (int32_t f = 0; f < model->n_lookups; f++) width += rk_collection_config_feature_width(collection, f);
    RK_TRY(allocate_engine_memory(model, set, width * model->max_here, &at));
    if (model->is_outline) return RK_OK;
    RK_TRY(rk_alloc((size_t)model->n_lookups, sizeof **model->gradients, &model->gradients[set]));
    for (int32_t f = 0; f < model->n_lookups; f++) {
        model->gradients[set][f] =
            (rk_activation){at, rk_collection_config_feature_width(collection, f), NULL};
        at += rk_collection_config_feature_width(collection, f) * model->max_here;
    }
    return RK_OK;
}

/* Stale updates run beside the blocks, so lookups may not: the whole batch is looked up first. */
static rk_status allocate_activations(rk_model *model) {
    const rk_value inputs[] = {model->vectors, model->linear};
    for (int i = 0; i < 2; i++) {
        rk_value input = inputs[i];
        if (input < 0) continue;
        int64_t width = rk_graph_shape(model->graph, input).cols;
        rk_real *data;
        RK_TRY(allocate_engine_memory(model, 2 + i, width * model->max_here, &data));
        if (model->is_outline) continue;
        rk_graph_bind_value(model->graph, input, data, NULL);
        for (int32_t f = 0; f < model->n_lookups; f++)
            if (model->lookups[f].input == input)
                model->activations[f] = (rk_activation){data + model->lookups[f].first, width, NULL};
    }
    return RK_OK;
}

rk_status rk_cpu_engine_create(rk_model *model, const rk_model_options *options,
                               const rk_collection_config *collection) {
    model->queue.depth = model->reducer->depth;
    if (!options->training) return RK_OK;
    RK_TRY(rk_alloc((size_t)model->n_lookups, sizeof *model->activations, &model->activations));
    RK_TRY(allocate_gradients(model, collection, 0));
    if (!model->stale) return RK_OK;
    RK_TRY(allocate_gradients(model, collection, 1));
    return allocate_activations(model);
}
