/* The loss of a two_tower over ranks: trainers gather all vectors, each computes the loss of its
 * micro-batches, and gradients go back to the trainers with the samples. */
#include <string.h>

#include "base/memory.h"
#include "model/retrieval/retrieval_internal.h"
#include "model/step/ranks.h"

rk_status rk_retrieval_ranks_init(const rk_model *model, rk_retrieval_ranks *ranks) {
    const rk_retrieval *r = model->retrieval;
    size_t dim = (size_t)rk_graph_shape(model->graph, r->user).cols, n = (size_t)model->max_batch,
           n_items = n + (size_t)r->section.negatives;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n * dim, ranks->users), RK_ARRAY(n * dim, ranks->user_gradient),
                        RK_ARRAY(n_items * dim, ranks->items)));
    return rk_alloc(n_items * dim, sizeof *ranks->item_gradient, &ranks->item_gradient);
}

void rk_retrieval_ranks_release(rk_retrieval_ranks *ranks) {
    RK_FREE_ALL(ranks->users, ranks->user_gradient, ranks->items, ranks->item_gradient);
    *ranks = (rk_retrieval_ranks){0};
}

typedef struct span {
    int64_t first, last;
} span;

static span intersect_spans(span a, span b) {
    int64_t first = a.first > b.first ? a.first : b.first, last = a.last < b.last ? a.last : b.last;
    return (span){first, last > first ? last : first};
}

/* Of a batch of `total` samples, those of trainer t. */
static span samples_of_trainer(const rk_ranks *ranks, int32_t t, int64_t total) {
    return (span){rk_ranks_first_sample(ranks, t, total), rk_ranks_first_sample(ranks, t + 1, total)};
}

/* Of n pairs, those whose rows of scores trainer t has. */
static span score_rows_of_trainer(const rk_ranks *ranks, int32_t t, int64_t n) {
    return (span){rk_candidate_loss_first_sample(n, (int32_t)ranks->n_micro_batches,
                                                 (int32_t)ranks->first_micro_batches[t]),
                  rk_candidate_loss_first_sample(n, (int32_t)ranks->n_micro_batches,
                                                 (int32_t)ranks->first_micro_batches[t + 1])};
}

rk_status rk_retrieval_all_gather_vectors(const rk_model *model, int64_t n, rk_candidate_loss_args *args) {
    const rk_retrieval *r = model->retrieval;
    const rk_retrieval_ranks *k = &r->ranks;
    int64_t total = n + r->section.negatives, dim = rk_graph_shape(model->graph, r->user).cols;
    RK_TRY(rk_ranks_all_gather(model->ranks, args->users, n, total, dim, k->users));
    RK_TRY(rk_ranks_all_gather(model->ranks, args->items, total, total, dim, k->items));
    args->users = k->users;
    args->items = k->items;
    args->user_gradient = k->user_gradient;
    args->item_gradient = k->item_gradient;
    return RK_OK;
}

/* Each pair's gradient from who had its row of scores to whose sample it is. */
static rk_status return_user_gradients(const rk_model *model, int64_t n, int64_t total, int64_t dim) {
    const rk_retrieval *r = model->retrieval;
    const rk_ranks *ranks = model->ranks;
    span rows = score_rows_of_trainer(ranks, ranks->rank, n),
         samples = samples_of_trainer(ranks, ranks->rank, total);
    rk_real *out = rk_graph_gradient(model->graph, r->user);
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    for (int32_t t = 0; t < ranks->roles.n_trainers; t++) {
        span theirs = intersect_spans(rows, samples_of_trainer(ranks, t, total));
        ranks->messages[t] = (rk_message){r->ranks.user_gradient + theirs.first * dim,
                                          (size_t)((theirs.last - theirs.first) * dim) * sizeof *out};
    }
    RK_TRY(rk_all_to_all_begin(ranks->trainers, RK_CHANNEL_VALUES, ranks->messages, NULL, NULL, &all_to_all));
    RK_TRY(rk_all_to_all_wait(all_to_all));
    for (int32_t t = 0; t < ranks->roles.n_trainers; t++) {
        span mine = intersect_spans(samples, score_rows_of_trainer(ranks, t, n));
        size_t n_bytes = (size_t)((mine.last - mine.first) * dim) * sizeof *out;
        RK_TRY(rk_all_to_all_copy_message(all_to_all, t, n_bytes, out + (mine.first - samples.first) * dim));
    }
    return RK_OK;
}

static rk_status all_gather_losses(const rk_model *model) {
    const rk_retrieval *r = model->retrieval;
    const rk_ranks *ranks = model->ranks;
    const int64_t *first = ranks->first_micro_batches;
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    RK_TRY(rk_comm_all_gather(
        ranks->trainers, RK_CHANNEL_VALUES, r->micro_batch_losses + first[ranks->rank],
        (size_t)(first[ranks->rank + 1] - first[ranks->rank]) * sizeof *r->micro_batch_losses, &all_to_all));
    for (int32_t t = 0; t < ranks->roles.n_trainers; t++)
        RK_TRY(rk_all_to_all_copy_message(all_to_all, t,
                                          (size_t)(first[t + 1] - first[t]) * sizeof *r->micro_batch_losses,
                                          r->micro_batch_losses + first[t]));
    return RK_OK;
}

rk_status rk_retrieval_return_gradients(const rk_model *model, int64_t n,
                                        const rk_candidate_loss_args *args) {
    const rk_retrieval *r = model->retrieval;
    int64_t total = n + r->section.negatives, dim = rk_graph_shape(model->graph, r->user).cols;
    span samples = samples_of_trainer(model->ranks, model->ranks->rank, total);
    RK_TRY(return_user_gradients(model, n, total, dim));
    RK_TRY(rk_comm_all_reduce_f32(model->ranks->trainers, args->item_gradient, (size_t)(total * dim)));
    if (samples.last > samples.first)
        memcpy(rk_graph_gradient(model->graph, r->item), args->item_gradient + samples.first * dim,
               (size_t)((samples.last - samples.first) * dim) * sizeof *args->item_gradient);
    return all_gather_losses(model);
}
