/* A two_tower's batches and their loss. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"
#include "base/thread/trace.h"
#include "model/retrieval/retrieval_internal.h"
#include "model/step/local_batch.h"
#include "model/step/ranks.h"

/* Streams of random numbers beside those of rows, dropout and shuffling. */
static const uint64_t draw_seed = 0x6e656761746976ull, history_seed = 0x686973746f7279ull;

/* The id of item number `item`: pairs, histories and samples have numbers (rk_interactions). */
static int64_t id_of_item(const rk_retrieval *r, int64_t item) {
    return r->known ? rk_interactions_item_id(r->known, item) : item;
}

/* The number of sample i's item; of one that the training data has. */
static rk_status read_item(const rk_retrieval *r, const rk_batch *batch, int64_t i, int64_t *out) {
    RK_TRY(rk_batch_single_id(batch, &r->schema, r->pair.item, i, out));
    if (!r->known) return RK_OK;
    int64_t key = *out;
    *out = rk_interactions_item(r->known, key);
    RK_FAIL_IF(*out < 0, RK_BAD_DATA,
               "row %lld: feature '%s': the key %lld was not in the training data when its pairs were read\n"
               "hint: data must not change while a run trains on it",
               (long long)(batch->first_row + i), r->schema.features[r->pair.item].name, (long long)key);
    return RK_OK;
}

/* Probabilities to be a candidate: for the batch's own items, their frequency in the data; for sampled items,
 * the sampler's. A pair's own item is corrected like the candidates beside it: as an in-batch item if these
 * are candidates, else as a sampled one. */
const rk_real *rk_retrieval_log_q_of_candidates(rk_retrieval *r, const rk_pairs *pairs) {
    const rk_interactions *known = r->known;
    if (!r->section.log_q) return NULL;
    int64_t n = pairs->n;
    double n_pairs = known ? (double)known->offsets[known->n_users] : 1;
    for (int64_t i = 0; i < n + r->section.negatives; i++) {
        bool by_data = i < n && r->section.in_batch;
        double count = by_data && known->counts[pairs->ids[i]] ? (double)known->counts[pairs->ids[i]] : 1;
        r->log_q[i] =
            by_data ? (rk_real)log(count / n_pairs) : rk_negative_sampler_log_q(r->sampler, pairs->ids[i]);
    }
    return r->log_q;
}

/* The history of sample i: all of the user's items, or in training max_history of them from a random place
 * on, without the pair's own. */
static rk_status append_history(const rk_retrieval *r, const rk_batch *batch, const rk_pairs *pairs,
                                int64_t i, rk_retrieval_batch *to) {
    int64_t user, own = pairs ? pairs->ids[i] : -1, most = pairs ? r->section.max_history : 0;
    RK_TRY(rk_batch_single_id(batch, &r->schema, r->pair.user, i, &user));
    user = rk_interactions_user(r->known, user);
    if (user < 0) return RK_OK; /* a key that the training data has not */
    int64_t begin = r->known->offsets[user], n = r->known->offsets[user + 1] - begin, first = 0, taken = 0;
    if (most && n > most + 1)
        first =
            (int64_t)(rk_rng_u64(r->seed ^ history_seed, (uint64_t)pairs->step, (uint64_t)i) % (uint64_t)n);
    for (int64_t k = 0; k < n && (!most || taken < most); k++) {
        int64_t item = r->known->items[begin + (first + k) % n];
        if (item == own) continue;
        RK_TRY(rk_retrieval_batch_add_id(to, r->schema.n_features, id_of_item(r, item)));
        taken++;
    }
    return RK_OK;
}

/* The pairs of a whole batch and the items that its step draws. */
static rk_status draw_negative_items(const rk_model *model, const rk_batch *batch, int64_t step,
                                     rk_pairs *out) {
    const rk_retrieval *r = model->retrieval;
    RK_TRY(rk_reserve(&out->ids, &out->ids_capacity, (size_t)(batch->n + r->section.negatives),
                      sizeof *out->ids));
    RK_TRY(rk_reserve(&out->weights, &out->weights_capacity, (size_t)batch->n, sizeof *out->weights));
    out->n = batch->n;
    out->step = step;
    out->weighted = batch->sample_weights != NULL;
    for (int64_t i = 0; i < batch->n; i++) {
        int64_t item;
        RK_TRY(read_item(r, batch, i, &item));
        out->ids[i] = (int32_t)item;
    }
    for (int64_t j = 0; j < r->section.negatives; j++)
        out->ids[batch->n + j] =
            (int32_t)rk_negative_sampler_draw(r->sampler, r->seed ^ draw_seed, (uint64_t)step, (uint64_t)j);
    if (out->weighted) memcpy(out->weights, batch->sample_weights, (size_t)batch->n * sizeof *out->weights);
    return RK_OK;
}

/* Samples first .. last-1 of the batch with histories, and with `pairs` (in training) followed by one sample
 * for each sampled item; a view of what is built in `memory`. */
static rk_status append_histories_and_negatives(const rk_model *model, const rk_batch *batch,
                                                const rk_pairs *pairs, int64_t first, int64_t last,
                                                rk_retrieval_batch *memory, rk_batch *out) {
    const rk_retrieval *r = model->retrieval;
    int64_t begin = first < batch->n ? first : batch->n, end = last < batch->n ? last : batch->n,
            n = end - begin;
    RK_TRY(rk_retrieval_batch_begin(memory, batch, begin, n, last - first - n));
    for (int32_t l = 0; l < r->n_lookups; l++) {
        int32_t f = r->features[l];
        if (f == r->schema.n_features) {
            RK_FAIL_IF(!r->known, RK_INVALID_ARGUMENT,
                       "a two_tower with history needs the training data's pairs");
            for (int64_t i = begin; i < end; i++) {
                RK_TRY(append_history(r, batch, pairs, i, memory));
                RK_TRY(rk_retrieval_batch_end_sample(memory, f));
            }
        } else {
            RK_TRY(rk_retrieval_batch_append_ids(memory, f, &batch->features[f], begin, n));
        }
        for (int64_t i = n; i < last - first; i++) {
            if (f == r->pair.item)
                RK_TRY(rk_retrieval_batch_add_id(memory, f, id_of_item(r, pairs->ids[first + i])));
            RK_TRY(rk_retrieval_batch_end_sample(memory, f));
        }
    }
    *out = rk_retrieval_batch_view(memory);
    return RK_OK;
}

/* This trainer's samples of a batch, of which all is here, and of the items that the step draws. */
static rk_status fill_local_retrieval_batch(rk_model *model, const rk_rank_batch *rank_batch, int64_t step,
                                            rk_local_batch *batch) {
    int64_t first, last, total = rank_batch->total + rk_retrieval_n_negatives(model->retrieval);
    rk_batch mine;
    uint64_t begin = rk_trace_begin();
    rk_ranks_local_samples(model->ranks, total, &first, &last);
    RK_FAIL_IF(rank_batch->batch.n < rank_batch->total, RK_INVALID_ARGUMENT,
               "a two_tower needs all of a batch on each rank");
    RK_TRY(draw_negative_items(model, &rank_batch->batch, step, &batch->pairs));
    RK_TRY(append_histories_and_negatives(model, &rank_batch->batch, &batch->pairs, first, last,
                                          &model->retrieval->batch, &mine));
    rk_trace_end(begin, "draw");
    rk_rank_batch extended = {.batch = mine, .total = total, .base = first};
    RK_TRY(rk_local_batch_fill(model, &extended, first, last - first, false, batch));
    rk_model_sum_sample_weights(model, rank_batch, batch->task_samples);
    return RK_OK;
}

static rk_status make_prediction_piece(const rk_model *model, const rk_rank_batch *rank_batch, int64_t first,
                                       int64_t n, rk_retrieval_batch *memory, rk_rank_batch *out) {
    int64_t begin, end;
    rk_ranks_local_samples(model->ranks, n, &begin, &end);
    *out = (rk_rank_batch){.total = n, .base = begin};
    return append_histories_and_negatives(model, &rank_batch->batch, NULL, first + begin, first + end, memory,
                                          &out->batch);
}

rk_status rk_retrieval_make_item_batch(const rk_model *model, const int64_t *ids, int64_t n,
                                       rk_retrieval_batch *memory, rk_batch *out) {
    const rk_retrieval *r = model->retrieval;
    const rk_batch none = {.n_dense = model->n_dense, .n_features = r->schema.n_features};
    RK_TRY(rk_retrieval_batch_begin(memory, &none, 0, 0, n));
    for (int64_t i = 0; i < n; i++) {
        RK_TRY(rk_retrieval_batch_add_id(memory, r->pair.item, ids[i]));
        RK_TRY(rk_retrieval_batch_end_sample(memory, r->pair.item));
    }
    *out = rk_retrieval_batch_view(memory);
    return RK_OK;
}

/* Of the micro-batches that run here, or over ranks of all: then vectors come from all and gradients go back
 * to them. */
static rk_status run_candidate_loss(const rk_model *model, const rk_pairs *pairs,
                                    rk_candidate_loss_args *args) {
    rk_retrieval *r = model->retrieval;
    const rk_ranks *ranks = model->ranks;
    if (!ranks->is_distributed) return rk_candidate_loss_run(r->loss, args, r->micro_batch_losses);
    RK_TRY(rk_retrieval_all_gather_vectors(model, pairs->n, args));
    RK_TRY(rk_candidate_loss_run(r->loss, args,
                                 r->micro_batch_losses + ranks->first_micro_batches[ranks->rank]));
    return rk_retrieval_return_gradients(model, pairs->n, args);
}

rk_status rk_retrieval_loss_not_finite_error(const rk_model *model, double loss) {
    rk_error(RK_NOT_FINITE, "the loss is %g", fabs(loss)); /* a nan may have a sign */
    return rk_model_name_step(
        rk_model_launched_step(model),
        rk_error_hint(RK_NOT_FINITE,
                      "a lower learning rate, or a higher temperature, may keep the model from diverging"));
}

/* The batch's loss as if it were that of its first block. */
static rk_status store_loss_of_batch(const rk_model *model, int64_t n_here) {
    const rk_retrieval *r = model->retrieval;
    double loss = 0;
    for (int64_t s = 0; s < r->n_micro_batches; s++) loss += r->micro_batch_losses[s];
    memset(model->losses, 0, rk_graph_n_blocks(model->graph, n_here) * sizeof *model->losses);
    if (model->ranks->rank == 0) model->losses[0] = loss;
    return isfinite(loss) ? RK_OK : rk_retrieval_loss_not_finite_error(model, loss);
}

static rk_status compute_loss_of_batch(void *context) {
    const rk_model_run *run = context;
    const rk_model *model = run->model;
    rk_retrieval *r = model->retrieval;
    const rk_pairs *pairs = run->pairs;
    int64_t n = run->batch->n;
    uint64_t begin = rk_trace_begin();
    rk_candidate_loss_args args = {.n = pairs->n,
                                   .users = rk_graph_data(model->graph, r->user),
                                   .items = rk_graph_data(model->graph, r->item),
                                   .ids = pairs->ids,
                                   .log_q = rk_retrieval_log_q_of_candidates(r, pairs),
                                   .weights = pairs->weighted ? pairs->weights : NULL,
                                   .scale = run->task_samples[0] > 0 ? 1 / run->task_samples[0] : 0,
                                   .user_gradient = rk_graph_gradient(model->graph, r->user),
                                   .item_gradient = rk_graph_gradient(model->graph, r->item)};
    memset(rk_graph_gradient(model->graph, model->logits), 0, (size_t)n * sizeof *args.user_gradient);
    rk_status status = run_candidate_loss(model, pairs, &args);
    rk_trace_end(begin, "forward");
    RK_TRY(status);
    return store_loss_of_batch(model, n);
}

static void hook_retrieval_loss(const rk_model_run *run, rk_graph_hooks *hooks) {
    hooks->whole = compute_loss_of_batch;
    hooks->n_rest = rk_retrieval_n_local_negatives(run->model, run->pairs->n, run->batch->n);
}

/* Vectors, of the whole batch: users and scores are needed for pairs only, items for sampled ones too. */
static void mark_retrieval_outputs(rk_model *model) {
    rk_graph *graph = model->graph;
    rk_value user = rk_graph_find_value(graph, "user_vector");
    rk_graph_mark_output(graph, user);
    rk_graph_mark_output(graph, rk_graph_find_value(graph, "item_vector"));
    rk_graph_mark_partial_batch(graph, user);
    rk_graph_mark_partial_batch(graph, model->logits);
    rk_graph_retain_values(graph);
}

static const char *retrieval_loss_name(const rk_model *model, int32_t task) {
    (void)task;
    return rk_retrieval_loss_name(&model->retrieval->section);
}

const rk_loss_ops rk_retrieval_losses = {.extends = true,
                                         .name = retrieval_loss_name,
                                         .bytes = rk_retrieval_memory_bytes,
                                         .mark_outputs = mark_retrieval_outputs,
                                         .create = rk_retrieval_create_loss,
                                         .fill = fill_local_retrieval_batch,
                                         .hook = hook_retrieval_loss,
                                         .piece = make_prediction_piece};
