#include "model/cuda/device_batch.h"

#include <string.h>

#include "base/thread/parallel.h"
#include "model/retrieval/retrieval.h"

static size_t reserve_in_layout(size_t *at, int64_t n, size_t bytes) {
    size_t here = *at;
    *at += ((size_t)n * bytes + 255) / 256 * 256;
    return here;
}

rk_device_batch_layout rk_device_batch_layout_make(const rk_model *model) {
    rk_device_batch_layout l = {
        .n_sequences = model->lengths >= 0 ? rk_graph_shape(model->graph, model->lengths).cols : 0};
    int64_t n_items =
        rk_model_is_two_tower(model) ? model->max_batch + rk_retrieval_n_negatives(model->retrieval) : 0;
    l.dense = reserve_in_layout(&l.n_bytes, model->max_here * model->n_dense, sizeof(float));
    l.lengths = reserve_in_layout(&l.n_bytes, model->max_here * l.n_sequences, sizeof(float));
    l.pairs = reserve_in_layout(&l.n_bytes, n_items, sizeof(int32_t));
    l.log_q = reserve_in_layout(&l.n_bytes, n_items, sizeof(float));
    l.labels = reserve_in_layout(&l.n_bytes, model->max_batch * model->n_tasks, sizeof(float));
    l.weights = reserve_in_layout(&l.n_bytes, model->max_batch, sizeof(float));
    l.scales = reserve_in_layout(&l.n_bytes, model->n_tasks, sizeof(double));
    l.wholes = reserve_in_layout(&l.n_bytes, model->n_tasks, sizeof(double));
    l.shares = reserve_in_layout(&l.n_bytes, model->n_tasks, sizeof(double));
    l.step = reserve_in_layout(&l.n_bytes, 2, sizeof(int64_t));
    return l;
}

rk_status rk_device_batch_init(const rk_device_batch_layout *layout, rk_device *device,
                               rk_device_batch *batch) {
    RK_TRY(rk_device_alloc_host(device, layout->n_bytes, &batch->host));
    RK_TRY(rk_device_alloc(device, layout->n_bytes, &batch->device));
    return RK_OK;
}

void rk_device_batch_release(rk_device *device, rk_device_batch *batch) {
    rk_device_free_host(device, batch->host);
    rk_device_free(device, batch->device);
}

static void upload_bytes(rk_stream *upload, const rk_device_batch *batch, size_t offset, size_t n_bytes) {
    if (n_bytes) rk_stream_upload(upload, batch->device + offset, batch->host + offset, n_bytes);
}

static void pack_sample_weights(const rk_device_batch_layout *l, int64_t n, const float *weights,
                                rk_device_batch *to) {
    float *host = (float *)(to->host + l->weights);
    for (int64_t i = 0; i < n; i++) host[i] = weights ? weights[i] : 1;
}

/* Of each task's samples: the weight of all, and the part of it that is here. */
static void pack_task_weight_sums(const rk_device_batch_layout *l, const rk_model *model,
                                  const rk_local_batch *from, rk_device_batch *to) {
    double *wholes = (double *)(to->host + l->wholes), *shares = (double *)(to->host + l->shares);
    rk_rank_batch here = rk_rank_batch_from_batch(&from->batch, RK_NO_TIMESTAMP);
    memcpy(wholes, from->task_samples, (size_t)model->n_tasks * sizeof *wholes);
    rk_model_sum_sample_weights(model, &here, shares);
    for (int32_t t = 0; t < model->n_tasks; t++) shares[t] = wholes[t] > 0 ? shares[t] / wholes[t] : 0;
}

static void upload_user_item_pairs(const rk_device_batch_layout *l, const rk_model *model,
                                   const rk_pairs *pairs, rk_stream *upload, rk_device_batch *to) {
    size_t n = (size_t)pairs->n, n_items = n + (size_t)rk_retrieval_n_negatives(model->retrieval);
    const float *log_q = rk_retrieval_log_q_of_candidates(model->retrieval, pairs);
    const float *weights = pairs->weighted ? pairs->weights : NULL;
    pack_sample_weights(l, pairs->n, weights, to);
    *(double *)(to->host + l->wholes) = rk_loss_sum_weights(pairs->n, weights, NULL, 1);
    to->n_pairs = pairs->n;
    memcpy(to->host + l->pairs, pairs->ids, n_items * sizeof *pairs->ids);
    if (log_q) memcpy(to->host + l->log_q, log_q, n_items * sizeof *log_q);
    upload_bytes(upload, to, l->pairs, n_items * sizeof *pairs->ids);
    upload_bytes(upload, to, l->log_q, log_q ? n_items * sizeof *log_q : 0);
    upload_bytes(upload, to, l->weights, n * sizeof *weights);
}

static void upload_labels_or_pairs(const rk_device_batch_layout *l, const rk_model *model,
                                   const rk_local_batch *local, rk_stream *upload, rk_device_batch *to) {
    const rk_batch *from = &local->batch;
    float *labels = (float *)(to->host + l->labels);
    size_t n = (size_t)from->n, label_bytes = n * (size_t)model->n_tasks * sizeof *labels;
    rk_parallel_copy(labels, from->labels, label_bytes);
    pack_sample_weights(l, from->n, from->sample_weights, to);
    pack_task_weight_sums(l, model, local, to);
    to->view.labels = labels;
    to->view.sample_weights = from->sample_weights ? (float *)(to->host + l->weights) : NULL;
    upload_bytes(upload, to, l->labels, label_bytes);
    upload_bytes(upload, to, l->weights, n * sizeof(float));
}

void rk_device_batch_upload(const rk_device_batch_layout *l, const rk_model *model,
                            const rk_local_batch *local, bool labelled, rk_stream *upload,
                            rk_device_batch *to) {
    const rk_batch *from = &local->batch;
    float *dense = (float *)(to->host + l->dense), *lengths = (float *)(to->host + l->lengths);
    size_t n = (size_t)from->n, dense_bytes = n * (size_t)model->n_dense * sizeof(float);
    ((int64_t *)(to->host + l->step))[1] = local->base;
    to->view = (rk_batch){.n = from->n,
                          .n_dense = model->n_dense,
                          .n_tasks = model->n_tasks,
                          .dense = dense,
                          .first_row = from->first_row};
    rk_parallel_copy(dense, from->dense, dense_bytes);
    if (l->n_sequences) rk_model_compute_lengths(model, local->ids, 0, from->n, lengths);
    upload_bytes(upload, to, l->dense, dense_bytes);
    upload_bytes(upload, to, l->lengths, n * (size_t)l->n_sequences * sizeof(float));
    if (labelled && rk_model_is_two_tower(model))
        upload_user_item_pairs(l, model, &local->pairs, upload, to);
    else if (labelled)
        upload_labels_or_pairs(l, model, local, upload, to);
}

void rk_device_batch_set_step_values(const rk_device_batch_layout *l, const rk_model *model,
                                     rk_stream *stream, rk_device_batch *batch) {
    double *scales = (double *)(batch->host + l->scales);
    const double *wholes = (const double *)(batch->host + l->wholes);
    for (int32_t t = 0; t < model->n_tasks; t++)
        scales[t] = wholes[t] > 0 ? rk_model_task_weight(&model->tasks[t], model->step) / wholes[t] : 0;
    *(int64_t *)(batch->host + l->step) = model->step;
    upload_bytes(stream, batch, l->scales, l->n_bytes - l->scales);
}
