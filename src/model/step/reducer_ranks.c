/* Over ranks, dense gradients are summed in buckets, from the last one on, during the backward pass. Beside
 * them every trainer sends its step status to all. */
#include <string.h>

#include "base/memory.h"
#include "base/thread/clock.h"
#include "base/thread/trace.h"
#include "comm/progress_thread.h"
#include "model/step/local_batch.h"
#include "model/step/ranks.h"
#include "model/step/reducer.h"

enum { MAX_BUCKETS = 64 }; /* whose all_reduces take two all_to_alls each */

/* What trainers gather after each step. */
typedef struct step_status {
    int32_t status; /* rk_status */
    int32_t stop;   /* the rank was asked to */
    char error[496];
    uint64_t bytes_sent; /* so far */
    double losses[];     /* [micro-batches of the rank, n_tasks] */
} step_status;

/* A step's dense gradients on their way to being summed over trainers, and applied. */
typedef struct reduction {
    float *values;                    /* [n]: the graph's own, where they are applied before the next step */
    rk_all_reduce *sums[MAX_BUCKETS]; /* [n_sums]: begun, from the last bucket on */
    size_t n_sums;
    step_status *mine;
    rk_all_to_all *statuses;
} reduction;

typedef struct reducer_ranks {
    rk_reducer reducer;
    rk_dense_wire wire;
    size_t bucket; /* dense gradients that are summed together; the first ones may be fewer */
    rk_progress_thread progress_thread; /* runs where there are several buckets */
    reduction *reductions;              /* [n_reductions]: depth + 1 */
    size_t n_reductions;
    int64_t n_posted, n_waited;
} reducer_ranks;

static reduction *reduction_of_step(const reducer_ranks *r, int64_t number) {
    return &r->reductions[(size_t)number % r->n_reductions];
}

/* Of the gradients from `from` on. */
static rk_sum_rounding rounding_of(const reducer_ranks *r, size_t from) {
    const rk_residual *residual = &r->reducer.residual;
    rk_sum_rounding rounding = {.wire = r->wire.rounding};
    if (residual->n) rounding.residual = residual->values + from, rounding.next = residual->next + from;
    return rounding;
}

/* Gradients from `first` on are complete: starts their buckets' all_reduces, while backward continues. */
static rk_status begin_bucket_all_reduces(reducer_ranks *r, int64_t first) {
    rk_model *model = r->reducer.model;
    reduction *at = reduction_of_step(r, r->n_posted);
    size_t n;
    const float *gradients = rk_graph_gradients(model->graph, &n);
    while (at->n_sums * r->bucket < n) {
        size_t end = n - at->n_sums * r->bucket, from = end > r->bucket ? end - r->bucket : 0;
        if (from < (size_t)first) break;
        uint64_t began = rk_trace_begin();
        if (at->values != gradients)
            memcpy(at->values + from, gradients + from, (end - from) * sizeof *gradients);
        rk_sum_rounding rounding = rounding_of(r, from);
        RK_TRY(rk_all_reduce_begin_rounded(model->ranks->trainers, RK_CHANNEL_DENSE, &rounding,
                                           at->values + from, end - from, &at->sums[at->n_sums]));
        at->n_sums++;
        rk_trace_end(began, "begin sum of ranks");
    }
    return RK_OK;
}

static reducer_ranks *reducer_of_run(void *context) {
    return (reducer_ranks *)((const rk_model_run *)context)->model->reducer;
}

static rk_status begin_ready_buckets(void *context, int64_t first) {
    return begin_bucket_all_reduces(reducer_of_run(context), first);
}

static rk_status all_reduce_now(void *context, rk_real *values, size_t n) {
    return rk_comm_all_reduce_f32(reducer_of_run(context)->reducer.model->ranks->trainers, values, n);
}

static void ranks_hook_gradients(rk_reducer *reducer, const rk_local_batch *local_batch,
                                 rk_graph_hooks *hooks) {
    hooks->batch = local_batch->total;
    hooks->sum = all_reduce_now;
    hooks->ready = ((reducer_ranks *)reducer)->progress_thread.runs ? begin_ready_buckets : NULL;
}

static rk_status ranks_post_status(rk_reducer *reducer, const rk_local_batch *local_batch, rk_status found,
                                   double loss) {
    (void)loss; /* all sum those of the micro-batches, in their order */
    reducer_ranks *r = (reducer_ranks *)reducer;
    const rk_model *model = reducer->model;
    rk_ranks *ranks = model->ranks;
    reduction *at = reduction_of_step(r, r->n_posted);
    size_t loss_bytes = rk_graph_n_micro_batches(model->graph, local_batch->batch.n) *
                        (size_t)model->n_tasks * sizeof(double);
    at->mine->status = (int32_t)found;
    at->mine->stop = ranks->asks_to_stop;
    at->mine->error[0] = 0;
    at->mine->bytes_sent = rk_comm_bytes_sent(ranks->comm);
    if (found != RK_OK) rk_error_copy(at->mine->error, sizeof at->mine->error);
    memcpy(at->mine->losses, model->micro_batch_losses, loss_bytes);
    for (int32_t t = 0; t < ranks->roles.n_trainers; t++)
        ranks->messages[t] = (rk_message){at->mine, sizeof *at->mine + loss_bytes};
    RK_TRY(
        rk_all_to_all_begin(ranks->trainers, RK_CHANNEL_VALUES, ranks->messages, NULL, NULL, &at->statuses));
    if (r->wire.n_vectors)
        RK_TRY(rk_powersgd_begin(&reducer->powersgd, ranks->trainers, at->values, &reducer->residual));
    else
        RK_TRY(begin_bucket_all_reduces(r, 0));
    r->n_posted++;
    return RK_OK;
}

/* Trainer t's status, and its losses behind the n that are there. */
static rk_status receive_status_of_trainer(const rk_model *model, const reduction *at, int32_t t,
                                           double *losses, size_t *n) {
    const step_status *theirs;
    size_t loss_bytes, n_tasks = (size_t)model->n_tasks,
                       most = (size_t)rk_ranks_n_micro_batches(model->ranks, t) * n_tasks * sizeof *losses;
    RK_TRY(rk_all_to_all_split_message(at->statuses, t, sizeof *theirs, &theirs, &loss_bytes));
    rk_ranks_add_received_status(model->ranks, theirs->stop, theirs->bytes_sent);
    if (theirs->status != RK_OK)
        return rk_error((rk_status)theirs->status, "%.*s", (int)sizeof theirs->error, theirs->error);
    RK_FAIL_IF(loss_bytes > most, RK_INTERNAL, "rank %d sent the losses of more micro-batches than it has",
               t);
    memcpy(losses + *n * n_tasks, theirs->losses, loss_bytes);
    *n += loss_bytes / (n_tasks * sizeof *losses);
    return RK_OK;
}

/* What all have found: the step's loss; or the first failure, which is then every rank's. */
static rk_status receive_statuses(const rk_model *model, const reduction *at, const rk_batch *batch,
                                  double *loss) {
    rk_ranks *ranks = model->ranks;
    size_t n = 0;
    RK_AUTOFREE double *losses = NULL;
    RK_TRY(rk_all_to_all_wait(at->statuses));
    RK_TRY(rk_alloc((size_t)(ranks->n_micro_batches * model->n_tasks), sizeof *losses, &losses));
    rk_ranks_clear_received_status(ranks);
    for (int32_t t = 0; t < ranks->roles.n_trainers; t++)
        RK_TRY(receive_status_of_trainer(model, at, t, losses, &n));
    return rk_model_sum_losses_of_micro_batches(model, batch, losses, n, loss);
}

static rk_status wait_all_reduces(reduction *at) {
    rk_status status = RK_OK;
    for (size_t i = 0; i < at->n_sums; i++) {
        if (status == RK_OK) status = rk_all_reduce_wait(at->sums[i]);
        rk_all_reduce_free(at->sums[i]);
    }
    at->n_sums = 0;
    return status;
}

static rk_status ranks_wait_status(rk_reducer *reducer, const rk_batch *batch, double *loss) {
    reducer_ranks *r = (reducer_ranks *)reducer;
    const rk_model *model = reducer->model;
    reduction *at = reduction_of_step(r, r->n_waited++);
    uint64_t begin = rk_trace_begin();
    double began = rk_clock_seconds();
    size_t n;
    float *gradients = rk_graph_gradients(model->graph, &n);
    rk_status status = receive_statuses(model, at, batch, loss),
              summed = r->wire.n_vectors ? rk_powersgd_finish(&reducer->powersgd, model->ranks->trainers,
                                                              status == RK_OK, &reducer->residual)
                                         : wait_all_reduces(at);
    rk_all_to_all_free(at->statuses);
    at->statuses = NULL;
    reducer->wait_s += rk_clock_seconds() - began;
    if (status == RK_OK) status = summed;
    if (status == RK_OK && at->values != gradients) memcpy(gradients, at->values, n * sizeof *gradients);
    if (status == RK_OK) status = rk_reducer_check_dense_gradients(reducer);
    rk_trace_end(begin, "sum gradients of ranks");
    return status;
}

static void free_reducer_ranks(rk_reducer *reducer) {
    reducer_ranks *r = (reducer_ranks *)reducer;
    rk_progress_thread_release(&r->progress_thread);
    for (size_t i = 0; i < r->n_reductions; i++) {
        reduction *at = &r->reductions[i];
        rk_all_to_all_free(at->statuses);
        for (size_t k = 0; k < at->n_sums; k++) rk_all_reduce_free(at->sums[k]);
        rk_free(at->mine);
        if (reducer->depth) rk_free(at->values);
    }
    rk_powersgd_release(&reducer->powersgd);
    rk_residual_release(&reducer->residual);
    RK_FREE_ALL(r->reductions, r);
}

static const rk_reducer_ops ranks_ops = {.free = free_reducer_ranks,
                                         .hook = ranks_hook_gradients,
                                         .post = ranks_post_status,
                                         .wait = ranks_wait_status};

/* All reductions together have no more buckets than a channel takes. A single bucket could start only after
 * backward. */
static rk_status split_gradients_into_buckets(reducer_ranks *r, size_t n) {
    const rk_ranks *ranks = r->reducer.model->ranks;
    size_t n_reductions = (size_t)r->reducer.depth + 1,
           most = MAX_BUCKETS / n_reductions ? MAX_BUCKETS / n_reductions : 1;
    r->bucket = n / most < RK_BUCKET_VALUES ? RK_BUCKET_VALUES : n / most + 1;
    return n > r->bucket && ranks->roles.n_trainers > 1 && !r->wire.n_vectors
               ? rk_progress_thread_init(&r->progress_thread, ranks->trainers)
               : RK_OK;
}

static rk_status init_reducer_ranks(reducer_ranks *r) {
    const rk_model *model = r->reducer.model;
    const rk_ranks *ranks = model->ranks;
    size_t n,
        loss_bytes = (size_t)(rk_ranks_n_micro_batches(ranks, ranks->rank) * model->n_tasks) * sizeof(double);
    float *gradients = rk_graph_gradients(model->graph, &n);
    RK_TRY(split_gradients_into_buckets(r, n));
    if (rk_dense_wire_keeps_residual(r->wire))
        RK_TRY(rk_residual_init(&r->reducer.residual, n, ranks->rank, ranks->roles.n_trainers));
    if (r->wire.n_vectors)
        RK_TRY(
            rk_powersgd_init(&r->reducer.powersgd, model->graph, r->wire.n_vectors, ranks->roles.n_trainers));
    RK_TRY(rk_alloc((size_t)r->reducer.depth + 1, sizeof *r->reductions, &r->reductions));
    r->n_reductions = (size_t)r->reducer.depth + 1;
    for (size_t i = 0; i < r->n_reductions; i++) {
        reduction *at = &r->reductions[i];
        RK_TRY(rk_alloc(1, sizeof *at->mine + loss_bytes, &at->mine));
        at->values = r->reducer.depth ? NULL : gradients;
        if (r->reducer.depth) RK_TRY(rk_alloc(n, sizeof *at->values, &at->values));
    }
    return RK_OK;
}

rk_status rk_reducer_ranks_create(rk_model *model, int64_t depth, rk_dense_wire wire, rk_reducer **out) {
    reducer_ranks *r;
    RK_TRY(rk_alloc(1, sizeof *r, &r));
    r->reducer = (rk_reducer){.ops = &ranks_ops, .model = model, .depth = depth};
    r->wire = wire;
    *out = &r->reducer; /* the model's, whatever happens */
    return init_reducer_ranks(r);
}
