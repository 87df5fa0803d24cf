#include "model/cuda/device_ranks.h"

#include <string.h>

#include "cuda/dense/dense_optimizer_step.h"
#include "cuda/tables/row_exchange.h"
#include "embedding/cuda_sharded/device_sharded_store.h"
#include "model/step/ranks.h"

rk_status rk_device_ranks_check_supported(const rk_model *model, int64_t staleness) {
    const rk_ranks *ranks = model->ranks;
    RK_FAIL_IF(
        ranks->roles.n_owners, RK_UNSUPPORTED,
        "cluster.embedding_ranks is not supported with device: cuda\nhint: remove 'cluster.embedding_ranks'");
    RK_FAIL_IF(
        ranks->n_micro_batches != ranks->roles.n_trainers, RK_UNSUPPORTED,
        "cluster.virtual_shards is not supported with device: cuda\nhint: remove 'cluster.virtual_shards'");
    RK_FAIL_IF(
        staleness, RK_UNSUPPORTED,
        "train.staleness is not supported with device: cuda over ranks\nhint: remove 'train.staleness'");
    return RK_OK;
}

/* Ranks of a host are numbered one after the other; more of them than GPUs share those. */
int32_t rk_device_ranks_choose_gpu(const rk_model *model, int32_t first) {
    const rk_comm *comm = model->ranks->trainers;
    int32_t before = 0, n = rk_device_count();
    for (int32_t r = 0; r < comm->rank; r++)
        before += strcmp(comm->peers[r].host, comm->peers[comm->rank].host) == 0;
    return first < n ? (first + before) % n : first;
}

rk_status rk_device_ranks_create(rk_model *model, uint64_t budget_bytes) {
    rk_cuda_engine *d = model->cuda;
    rk_ranks *ranks = model->ranks;
    rk_device_tables_options tables = {.max_batch = model->max_here, .budget_bytes = budget_bytes};
    RK_TRY(rk_device_alloc(d->device, (size_t)ranks->roles.n_trainers * d->step_status_bytes, &d->founds));
    RK_TRY(rk_device_alloc_host(d->device, d->step_status_bytes, &d->own));
    if (!model->sharded) return RK_OK;
    return rk_device_store_sharded(model->sharded, d->device, d->comm, &tables, &d->store);
}

void rk_device_ranks_free(rk_model *model) {
    rk_cuda_engine *d = model->cuda;
    if (!d->comm) return;
    rk_all_to_all_free(d->words);
    rk_device_free(d->device, d->founds);
    rk_device_free_host(d->device, d->own);
    rk_device_comm_free(d->comm);
}

/* A communicator that fails keeps its failure, which the next call that can return one does. */
void rk_device_ranks_all_reduce(void *model, rk_stream *stream, float *values, int64_t n) {
    (void)rk_device_comm_all_reduce(((rk_model *)model)->cuda->comm, stream, values, (size_t)n);
}

static rk_status enqueue_row_gradient_sums(rk_model *model) {
    rk_cuda_engine *d = model->cuda;
    return d->store->ops->sum(d->store, d->compute, d->gradients);
}

/* Rows and parameters, unless what was found stops them. */
static rk_status enqueue_optimizer_updates(rk_model *model) {
    rk_cuda_engine *d = model->cuda;
    uint32_t *stop = rk_step_status_stop_flag(d->found, model->n_tasks);
    rk_device_graph_compute_gradient_norm(d->graph, d->compute, stop);
    RK_TRY(d->store->ops->apply(d->store, d->compute, d->gradients, stop));
    rk_device_graph_update(d->graph, d->compute, stop);
    return RK_OK;
}

static rk_status finish_step_over_ranks(rk_model *model) {
    rk_cuda_engine *d = model->cuda;
    const rk_ranks *ranks = model->ranks;
    size_t n_gradients, width = (size_t)model->n_tasks + 1;
    float *gradients = rk_device_graph_gradients(d->graph, &n_gradients);
    RK_TRY(rk_device_comm_all_gather(d->comm, d->compute, d->found, d->step_status_bytes, d->founds));
    rk_cuda_combine_step_statuses(d->compute, ranks->roles.n_trainers, model->n_tasks, d->founds, d->found);
    RK_TRY(rk_device_comm_all_reduce(d->comm, d->compute, gradients, n_gradients));
    RK_TRY(enqueue_optimizer_updates(model));
    rk_stream_download(d->compute, d->own, d->founds + (size_t)ranks->rank * width, d->step_status_bytes);
    rk_stream_download(d->compute, d->step_status, d->found, d->step_status_bytes);
    return RK_OK;
}

static rk_status device_ranks_begin(rk_model *model) {
    rk_ranks *ranks = model->ranks;
    rk_cuda_engine *d = model->cuda;
    d->word = (rk_device_control){ranks->asks_to_stop,
                                  rk_comm_bytes_sent(ranks->comm) + rk_device_comm_bytes_sent(d->comm)};
    for (int32_t r = 0; r < ranks->roles.n_trainers; r++)
        ranks->messages[r] = (rk_message){&d->word, sizeof d->word};
    return rk_all_to_all_begin(ranks->trainers, RK_CHANNEL_VALUES, ranks->messages, NULL, NULL, &d->words);
}

static rk_status device_ranks_end(rk_model *model) {
    rk_ranks *ranks = model->ranks;
    rk_cuda_engine *d = model->cuda;
    RK_TRY(rk_all_to_all_wait(d->words));
    rk_ranks_clear_received_status(ranks);
    for (int32_t r = 0; r < ranks->roles.n_trainers; r++) {
        const rk_device_control *theirs;
        RK_TRY(rk_all_to_all_get_message(d->words, r, sizeof d->word, &theirs));
        rk_ranks_add_received_status(ranks, theirs->stop, theirs->bytes_sent);
    }
    rk_all_to_all_free(d->words);
    d->words = NULL;
    return RK_OK;
}

static rk_status device_ranks_wait(rk_model *model) {
    return rk_device_comm_wait(model->cuda->comm, model->cuda->compute);
}

const rk_device_ranks_ops rk_device_many_ranks = {device_ranks_begin, enqueue_row_gradient_sums,
                                                  finish_step_over_ranks, device_ranks_end,
                                                  device_ranks_wait};

static rk_status self_do_nothing(rk_model *model) {
    (void)model;
    return RK_OK;
}

static rk_status self_enqueue_updates(rk_model *model) {
    rk_cuda_engine *d = model->cuda;
    RK_TRY(enqueue_optimizer_updates(model));
    rk_stream_download(d->compute, d->step_status, d->found, d->step_status_bytes);
    return RK_OK;
}

static rk_status self_wait(rk_model *model) {
    return rk_stream_sync(model->cuda->compute);
}

const rk_device_ranks_ops rk_device_one_rank = {self_do_nothing, self_enqueue_updates, self_do_nothing,
                                                self_do_nothing, self_wait};
