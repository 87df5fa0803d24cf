#include "model/cuda/device_data_parallel.h"

#include <string.h>

#include "cuda/dense/dense_update.h"
#include "cuda/tables/rank_rows.h"
#include "model/cuda/device_step_internal.h"

rk_status rk_device_data_parallel_check(const rk_model *model) {
    const rk_data_parallel *sp = model->data_parallel;
    RK_FAIL_IF(sp->roles.n_owners, RK_UNSUPPORTED,
               "with 'device: cuda' every rank trains\nhint: leave out 'cluster.embedding_ranks'");
    RK_FAIL_IF(
        sp->n_micro_batches != sp->roles.n_trainers, RK_UNSUPPORTED,
        "with 'device: cuda' a rank's part of a batch is not cut\nhint: leave out 'cluster.virtual_shards'");
    RK_FAIL_IF(sp->staleness, RK_UNSUPPORTED,
               "with 'device: cuda' no step sees old rows\nhint: leave out 'train.staleness'");
    return RK_OK;
}

/* Ranks of a host are numbered one after the other; more of them than GPUs share those. */
int32_t rk_device_data_parallel_number(const rk_model *model, int32_t first) {
    const rk_comm *comm = model->data_parallel->trainers;
    int32_t before = 0, n = rk_device_count();
    for (int32_t r = 0; r < comm->rank; r++)
        before += strcmp(comm->peers[r].host, comm->peers[comm->rank].host) == 0;
    return first < n ? (first + before) % n : first;
}

rk_status rk_device_data_parallel_create(rk_model *model, uint64_t budget_bytes) {
    rk_device_step *d = model->device_step;
    rk_data_parallel *sp = model->data_parallel;
    rk_device_tables_options tables = {.max_batch = model->max_here, .budget_bytes = budget_bytes};
    void *memory;
    RK_TRY(rk_device_alloc(d->device, (size_t)sp->roles.n_trainers * d->step_status_bytes, &memory));
    d->founds = memory;
    RK_TRY(rk_device_alloc_host(d->device, d->step_status_bytes, &memory));
    d->own = memory;
    if (!sp->sharded) return RK_OK;
    RK_TRY(rk_device_sharded_create(sp->sharded, d->device, d->comm, &tables, &d->sharded));
    d->tables = rk_device_sharded_front(d->sharded);
    return RK_OK;
}

void rk_device_data_parallel_free(rk_model *model) {
    rk_device_step *d = model->device_step;
    if (!d->comm) return;
    rk_all_to_all_free(d->words);
    rk_device_sharded_free(d->sharded);
    d->tables = NULL;
    rk_device_free(d->device, d->founds);
    rk_device_free_host(d->device, d->own);
    rk_device_comm_free(d->comm);
}

/* A communicator that fails keeps its failure, which the next call that can return one does. */
void rk_device_data_parallel_sum(void *model, rk_stream *stream, float *values, int64_t n) {
    (void)rk_device_comm_sum(((rk_model *)model)->device_step->comm, stream, values, (size_t)n);
}

rk_status rk_device_data_parallel_end_step(rk_model *model) {
    rk_device_step *d = model->device_step;
    const rk_data_parallel *sp = model->data_parallel;
    size_t n_gradients, width = (size_t)model->n_tasks + 1;
    float *gradients = rk_device_graph_gradients(d->graph, &n_gradients);
    uint32_t *stop = rk_stop_of(d->found, model->n_tasks);
    RK_TRY(rk_device_comm_gather(d->comm, d->compute, d->found, d->step_status_bytes, d->founds));
    rk_cuda_join_step_status(d->compute, sp->roles.n_trainers, model->n_tasks, d->founds, d->found);
    RK_TRY(rk_device_comm_sum(d->comm, d->compute, gradients, n_gradients));
    rk_device_graph_measure(d->graph, d->compute, stop);
    if (d->sharded) RK_TRY(rk_device_sharded_apply(d->sharded, d->compute, d->gradients, stop));
    rk_device_graph_update(d->graph, d->compute, stop);
    rk_stream_download(d->compute, d->own, d->founds + (size_t)sp->rank * width, d->step_status_bytes);
    rk_stream_download(d->compute, d->step_status, d->found, d->step_status_bytes);
    return RK_OK;
}

rk_status rk_device_data_parallel_begin_control(rk_model *model) {
    rk_data_parallel *sp = model->data_parallel;
    rk_device_step *d = model->device_step;
    d->word =
        (rk_device_word){sp->asks_to_stop, rk_comm_bytes_sent(sp->comm) + rk_device_comm_bytes_sent(d->comm)};
    for (int32_t r = 0; r < sp->roles.n_trainers; r++)
        sp->messages[r] = (rk_message){&d->word, sizeof d->word};
    return rk_all_to_all_begin(sp->trainers, RK_LANE_VALUES, sp->messages, NULL, NULL, &d->words);
}

rk_status rk_device_data_parallel_end_control(rk_model *model) {
    rk_data_parallel *sp = model->data_parallel;
    rk_device_step *d = model->device_step;
    RK_TRY(rk_all_to_all_wait(d->words));
    rk_data_parallel_begin_receiving(sp);
    for (int32_t r = 0; r < sp->roles.n_trainers; r++) {
        const void *data;
        RK_TRY(rk_all_to_all_take(d->words, r, sizeof d->word, &data));
        const rk_device_word *theirs = data;
        rk_data_parallel_receive(sp, theirs->stop, theirs->bytes_sent);
    }
    rk_all_to_all_free(d->words);
    d->words = NULL;
    sp->n_begun++;
    sp->n_trained++;
    sp->n_applied++;
    return RK_OK;
}
