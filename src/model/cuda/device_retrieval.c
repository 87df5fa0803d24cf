#include "model/cuda/device_retrieval.h"

#include <math.h>

#include "base/memory.h"
#include "cuda/dense/dense_optimizer_step.h"
#include "model/retrieval/retrieval.h"
#include "model/step/ranks.h"

/* Users' vectors or gradients of the whole batch, and behind them items', at most. */
static int64_t max_gathered_vectors(const rk_model *model) {
    return 2 * model->max_batch + rk_retrieval_n_negatives(model->retrieval);
}

static rk_status allocate_gathered_vectors(rk_model *model) {
    rk_cuda_engine *d = model->cuda;
    size_t n_bytes = (size_t)(max_gathered_vectors(model) * rk_model_vector_dim(model)) * sizeof(float);
    RK_TRY(rk_device_alloc(d->device, n_bytes, &d->all_vectors));
    RK_TRY(rk_device_alloc(d->device, n_bytes, &d->all_gradients));
    return rk_alloc(4 * (size_t)model->ranks->roles.n_trainers, sizeof *d->messages, &d->messages);
}

rk_status rk_device_retrieval_create(rk_model *model, const rk_model_device *options) {
    rk_candidate_loss_config config = rk_retrieval_loss_config(model);
    rk_device_candidate_loss_options how = {.tf32 = options->tf32};
    RK_TRY(rk_device_candidate_loss_create(model->cuda->device, &config, &how, &model->cuda->candidates));
    return model->ranks->is_distributed ? allocate_gathered_vectors(model) : RK_OK;
}

void rk_device_retrieval_free(rk_cuda_engine *d) {
    rk_device_candidate_loss_free(d->candidates);
    if (!d->device) return;
    rk_device_free(d->device, d->all_vectors);
    rk_device_free(d->device, d->all_gradients);
    rk_free(d->messages);
}

/* Where this step's vectors and gradients are. */
typedef struct vectors {
    const float *users, *items;
    float *user_gradient, *item_gradient;
} vectors;

static void run_device_candidate_loss(rk_model *model, const rk_device_batch *batch, const vectors *v,
                                      int64_t first, int64_t last) {
    rk_cuda_engine *d = model->cuda;
    const char *at = batch->device;
    rk_device_candidate_loss_run(
        d->candidates, d->compute,
        &(rk_device_candidate_loss_args){.n = batch->n_pairs,
                                         .first = first,
                                         .last = last,
                                         .users = v->users,
                                         .items = v->items,
                                         .ids = (const int32_t *)(at + d->layout.pairs),
                                         .log_q = rk_retrieval_corrects_log_q(model->retrieval)
                                                      ? (const float *)(at + d->layout.log_q)
                                                      : NULL,
                                         .weights = (const float *)(at + d->layout.weights),
                                         .scale = (const double *)(at + d->layout.scales),
                                         .user_gradient = v->user_gradient,
                                         .item_gradient = v->item_gradient,
                                         .loss = d->found,
                                         .stop = rk_step_status_stop_flag(d->found, model->n_tasks),
                                         .stop_bit = RK_CUDA_STOP_LOSS});
}

/* Of samples first .. last-1 those below n, as bytes of their vectors. */
static size_t vector_bytes_of_samples_below(int64_t first, int64_t last, int64_t n, int64_t dim) {
    int64_t end = last < n ? last : n;
    return end > first ? (size_t)((end - first) * dim) * sizeof(float) : 0;
}

static void append_device_message(rk_device_message *list, size_t *n, int32_t rank, const float *data,
                                  size_t n_bytes) {
    if (n_bytes) list[(*n)++] = (rk_device_message){rank, (void *)(size_t)data, n_bytes};
}

/* All trainers' vectors to all: users of the first n_pairs samples, items of all. */
static void all_gather_vectors(rk_model *model, const vectors *mine, int64_t n_pairs, int64_t total,
                               float *users, float *items) {
    rk_cuda_engine *d = model->cuda;
    const rk_ranks *ranks = model->ranks;
    rk_device_message *send = d->messages, *receive = send + 2 * ranks->roles.n_trainers;
    size_t n_send = 0, n_receive = 0;
    int64_t dim = rk_model_vector_dim(model), first = rk_ranks_first_sample(ranks, ranks->rank, total),
            last = rk_ranks_first_sample(ranks, ranks->rank + 1, total);
    for (int32_t r = 0; r < ranks->roles.n_trainers; r++) {
        int64_t from = rk_ranks_first_sample(ranks, r, total),
                to = rk_ranks_first_sample(ranks, r + 1, total);
        append_device_message(send, &n_send, r, mine->users,
                              vector_bytes_of_samples_below(first, last, n_pairs, dim));
        append_device_message(send, &n_send, r, mine->items,
                              vector_bytes_of_samples_below(first, last, total, dim));
        append_device_message(receive, &n_receive, r, users + from * dim,
                              vector_bytes_of_samples_below(from, to, n_pairs, dim));
        append_device_message(receive, &n_receive, r, items + from * dim,
                              vector_bytes_of_samples_below(from, to, total, dim));
    }
    (void)rk_device_comm_all_to_all(d->comm, d->compute, send, n_send, receive,
                                    n_receive); /* a failure is the next call's too */
}

/* Each trainer has the rows of some pairs; gradients, to users as to items, are summed over trainers. */
static void run_loss_over_ranks(rk_model *model, const rk_device_batch *batch, const vectors *mine) {
    rk_cuda_engine *d = model->cuda;
    const rk_ranks *ranks = model->ranks;
    int64_t n_pairs = batch->n_pairs, total = n_pairs + rk_retrieval_n_negatives(model->retrieval),
            dim = rk_model_vector_dim(model);
    int64_t first = rk_ranks_first_sample(ranks, ranks->rank, total),
            last = rk_ranks_first_sample(ranks, ranks->rank + 1, total), n = ranks->roles.n_trainers;
    float *users = d->all_vectors, *user_gradient = d->all_gradients;
    vectors all = {.users = users,
                   .items = users + n_pairs * dim,
                   .user_gradient = user_gradient,
                   .item_gradient = user_gradient + n_pairs * dim};
    all_gather_vectors(model, mine, n_pairs, total, users, users + n_pairs * dim);
    rk_stream_fill(d->compute, user_gradient, 0, (size_t)(n_pairs * dim) * sizeof *user_gradient);
    run_device_candidate_loss(model, batch, &all, n_pairs * ranks->rank / n, n_pairs * (ranks->rank + 1) / n);
    (void)rk_device_comm_all_reduce(d->comm, d->compute, user_gradient, (size_t)((n_pairs + total) * dim));
    size_t user_bytes = vector_bytes_of_samples_below(first, last, n_pairs, dim),
           item_bytes = vector_bytes_of_samples_below(first, last, total, dim);
    if (user_bytes)
        rk_stream_copy(d->compute, mine->user_gradient, all.user_gradient + first * dim, user_bytes);
    if (item_bytes)
        rk_stream_copy(d->compute, mine->item_gradient, all.item_gradient + first * dim, item_bytes);
}

static int64_t count_item_only_samples(const rk_model *model, const rk_device_batch *batch, int64_t n) {
    return rk_retrieval_n_local_negatives(model, batch->n_pairs, n);
}

/* Of scores nothing is learned. */
static void enqueue_retrieval_loss(rk_model *model, const rk_device_batch *batch, int64_t n) {
    rk_cuda_engine *d = model->cuda;
    rk_value user = rk_graph_find_value(model->graph, "user_vector"),
             item = rk_graph_find_value(model->graph, "item_vector");
    vectors mine = {rk_device_graph_data(d->graph, user), rk_device_graph_data(d->graph, item),
                    rk_device_graph_gradient(d->graph, user), rk_device_graph_gradient(d->graph, item)};
    rk_stream_fill(d->compute, rk_device_graph_gradient(d->graph, model->logits), 0,
                   (size_t)n * sizeof(float));
    if (model->ranks->is_distributed)
        run_loss_over_ranks(model, batch, &mine);
    else
        run_device_candidate_loss(model, batch, &mine, 0, batch->n_pairs);
}

static rk_status compute_retrieval_loss(const rk_model *model, const rk_batch *batch, const double *found,
                                        double *loss) {
    (void)batch;
    *loss = found[0];
    return isfinite(*loss) ? RK_OK : rk_retrieval_loss_not_finite_error(model, *loss);
}

const rk_device_loss_ops rk_device_retrieval_losses = {count_item_only_samples, enqueue_retrieval_loss,
                                                       compute_retrieval_loss};
