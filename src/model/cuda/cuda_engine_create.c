/* What a model needs on a GPU: streams, the graph and the tables there, and memory for two batches. */
#include "base/log.h"
#include "base/memory.h"
#include "model/cuda/device_retrieval.h"
#include "model/cuda/device_ranks.h"
#include "model/cuda/cuda_engine_internal.h"
#include "model/step/ranks.h"

static bool is_training_model(const rk_model *model) {
    return model->optimizer != NULL;
}

/* Where each feature's vectors stand in the graph's inputs. */
static rk_status bind_activations(rk_model *model) {
    rk_cuda_engine *d = model->cuda;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)model->n_lookups, d->activations),
                        RK_ARRAY((size_t)model->n_lookups, d->gradients)));
    for (int32_t f = 0; f < model->n_lookups; f++) {
        const rk_model_lookup *at = &model->lookups[f];
        int64_t stride = rk_device_graph_stride(d->graph, at->input);
        d->activations[f] =
            (rk_activation){rk_device_graph_data(d->graph, at->input) + at->first, stride, NULL};
        if (is_training_model(model))
            d->gradients[f] =
                (rk_activation){rk_device_graph_gradient(d->graph, at->input) + at->first, stride, NULL};
    }
    return RK_OK;
}

/* Lookups may write with a stride; gradients of dense numbers are not needed. */
static rk_status create_device_graph(rk_model *model, const rk_model_device *options) {
    rk_device_graph_input inputs[3];
    int32_t n = 0;
    if (model->vectors >= 0)
        inputs[n++] = (rk_device_graph_input){.value = model->vectors, .may_stride = true};
    if (model->dense >= 0) inputs[n++] = (rk_device_graph_input){.value = model->dense, .no_gradient = true};
    if (model->lengths >= 0)
        inputs[n++] = (rk_device_graph_input){.value = model->lengths, .no_gradient = true};
    rk_device_graph_options graph = {.max_batch = model->max_here,
                                     .training = is_training_model(model),
                                     .tf32 = options->tf32,
                                     .inputs = inputs,
                                     .n_inputs = n};
    if (model->ranks->is_distributed) graph.sum = rk_device_ranks_all_reduce, graph.sum_context = model;
    return rk_device_graph_create(model->graph, model->optimizer, model->cuda->device, &graph,
                                  &model->cuda->graph);
}

static rk_status create_device_tasks(rk_model *model) {
    RK_AUTOFREE rk_device_task *tasks = NULL;
    RK_TRY(rk_alloc((size_t)model->n_tasks, sizeof *tasks, &tasks));
    for (int32_t t = 0; t < model->n_tasks; t++)
        tasks[t] = (rk_device_task){.kind = model->tasks[t].loss,
                                    .optional = model->tasks[t].optional,
                                    .smoothing = model->tasks[t].smoothing,
                                    .learned = model->log_variances >= 0 && model->tasks[t].weight > 0};
    return rk_device_tasks_create(model->cuda->device, model->n_tasks, tasks, &model->cuda->tasks);
}

/* Unless the run file says how much: all of the tables if they fit beside the dense part, with a tenth of
 * what is free left for their scratch; else what does. */
static rk_status choose_table_budget(const rk_model *model, const rk_model_device *options, uint64_t *out) {
    rk_device_info info;
    uint64_t wanted = model->store->ops->bytes(model->store);
    RK_TRY(rk_device_query(model->cuda->device, &info));
    uint64_t sharers =
        model->ranks->is_distributed ? (uint64_t)rk_device_comm_ranks_on_gpu(model->cuda->comm) : 1;
    uint64_t most = options->memory_bytes ? options->memory_bytes : info.free_bytes / 10 * 9 / sharers;
    *out = wanted > most ? most : 0;
    rk_log(RK_LOG_INFO, "device: %s, %.1f of %.1f GB free; tables take %.1f GB%s", info.name,
           (double)info.free_bytes * 1e-9, (double)info.memory_bytes * 1e-9, (double)wanted * 1e-9,
           *out ? ", behind a cache" : "");
    return RK_OK;
}

static rk_status create_device_tables(rk_model *model, const rk_model_device *options) {
    rk_device_tables_options tables = {.max_batch = model->max_here};
    RK_TRY(choose_table_budget(model, options, &tables.budget_bytes));
    if (model->ranks->is_distributed) return rk_device_ranks_create(model, tables.budget_bytes);
    rk_cuda_engine *d = model->cuda;
    d->own = d->step_status;
    if (!rk_embeddings_n_tables(model->embeddings)) return RK_OK;
    rk_device_tables *on_device;
    RK_TRY(rk_device_tables_create(model->embeddings, d->device, &tables, &on_device));
    return rk_device_store_local(on_device, &d->store);
}

static rk_status allocate_engine_memory(rk_model *model) {
    rk_cuda_engine *d = model->cuda;
    size_t n_predictions =
        (size_t)((model->max_here > model->max_batch ? model->max_here : model->max_batch) * model->n_tasks);
    for (int i = 0; i < RK_DEVICE_BATCHES; i++)
        RK_TRY(rk_device_batch_init(&d->layout, d->device, &d->batches[i]));
    d->step_status_bytes = (size_t)(model->n_tasks + 1) * sizeof *d->step_status;
    RK_TRY(rk_device_alloc(d->device, d->step_status_bytes, &d->found));
    RK_TRY(rk_device_alloc_host(d->device, d->step_status_bytes, &d->step_status));
    RK_TRY(rk_device_alloc(d->device, n_predictions * sizeof *d->predictions, &d->predictions));
    RK_TRY(rk_device_alloc_host(d->device, n_predictions * sizeof *d->told, &d->told));
    return RK_OK;
}

/* The device, and all that ranks need not meet for. */
static rk_status open_device(rk_model *model, const rk_model_device *options) {
    rk_cuda_engine *d = model->cuda;
    RK_TRY(rk_device_open(
        model->ranks->is_distributed ? rk_device_ranks_choose_gpu(model, options->number) : options->number,
        &d->device));
    RK_TRY(rk_stream_create(d->device, &d->upload));
    RK_TRY(rk_stream_create(d->device, &d->dedup));
    RK_TRY(rk_stream_create(d->device, &d->compute));
    RK_TRY(create_device_graph(model, options));
    RK_TRY(create_device_tasks(model));
    if (rk_model_is_two_tower(model) && is_training_model(model))
        RK_TRY(rk_device_retrieval_create(model, options));
    return allocate_engine_memory(model);
}

/* No rank waits for one that has failed already. */
static rk_status create_device_comm(rk_model *model, rk_status status) {
    if (!model->ranks->is_distributed) return status;
    RK_TRY(rk_comm_agree_on_status(model->ranks->trainers, status));
    return rk_device_comm_create(model->ranks->trainers, model->cuda->device, &model->cuda->comm);
}

rk_status rk_cuda_engine_create(rk_model *model, const rk_model_device *options) {
    rk_cuda_engine *d;
    RK_TRY(rk_alloc(1, sizeof *d, &d));
    pthread_mutex_init(&d->turn, NULL);
    model->cuda = d;
    model->engine = &rk_cuda_engine_functions;
    model->queue.exclusive = true;
    /* A two_tower samples by the step's number, which is known when the step before is finished. */
    model->queue.depth = options->late && !model->loss->extends;
    d->store = rk_device_store_none();
    d->ranks = model->ranks->is_distributed ? &rk_device_many_ranks : &rk_device_one_rank;
    d->loss = rk_model_is_two_tower(model) ? &rk_device_retrieval_losses : &rk_device_task_losses;
    d->layout = rk_device_batch_layout_make(model);
    RK_TRY(create_device_comm(model, open_device(model, options)));
    RK_TRY(create_device_tables(model, options));
    return bind_activations(model);
}

void rk_cuda_engine_free(rk_model *model) {
    rk_cuda_engine *d = model->cuda;
    if (d->comm && d->compute)
        (void)rk_device_comm_wait(d->comm, d->compute); /* with a time limit: others may be gone */
    if (d->compute) (void)rk_stream_sync(d->compute);
    d->store->ops->free(d->store);
    rk_device_ranks_free(model);
    for (int i = 0; i < RK_DEVICE_BATCHES; i++) {
        rk_launch_cache_release(&d->training[i]);
        rk_launch_cache_release(&d->prediction[i]);
    }
    rk_device_tasks_free(d->tasks);
    rk_device_retrieval_free(d);
    rk_device_graph_free(d->graph);
    if (d->device) {
        for (int i = 0; i < RK_DEVICE_BATCHES; i++) rk_device_batch_release(d->device, &d->batches[i]);
        rk_device_free(d->device, d->found);
        rk_device_free_host(d->device, d->step_status);
        rk_device_free(d->device, d->predictions);
        rk_device_free_host(d->device, d->told);
    }
    rk_stream_free(d->upload);
    rk_stream_free(d->dedup);
    rk_stream_free(d->compute);
    rk_device_close(d->device);
    pthread_mutex_destroy(&d->turn);
    RK_FREE_ALL(d->activations, d->gradients, d);
    model->cuda = NULL;
}
