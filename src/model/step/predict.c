/* The one way of samples through a model for prediction: in pieces of the model's batch size, each rank its
 * own, through the engine. */
#include <string.h>

#include "base/memory.h"
#include "model/retrieval/retrieval.h"
#include "model/step/engine.h"
#include "model/step/ranks.h"

rk_status rk_inference_init(const rk_model *model, rk_inference *out) {
    *out = (rk_inference){.model = model, .store = model->store};
    return rk_local_batch_init(model, false, &out->batch);
}

void rk_inference_release(rk_inference *i) {
    if (i->store != i->model->store) i->store->ops->free(i->store);
    rk_retrieval_batch_release(&i->extended);
    rk_local_batch_release(i->model, &i->batch);
}

rk_status rk_model_check_no_batch_in_flight(const rk_model *model) {
    RK_FAIL_IF(model->queue.n_finished < model->queue.n_begun, RK_INVALID_ARGUMENT,
               "a batch is still in flight: drain the model first");
    return RK_OK;
}

/* Samples of a batch, or of a piece of it, to what `output` says: each trainer does its own, and all get all.
 * out [rank_batch->total, width]. */
static rk_status forward_local_and_all_gather(rk_inference *i, const rk_rank_batch *rank_batch,
                                              const rk_output *output, float *out) {
    const rk_model *model = i->model;
    int64_t begin, end;
    rk_ranks_local_samples(model->ranks, rank_batch->total, &begin, &end);
    float *mine = out + begin * output->width;
    RK_TRY(rk_local_batch_fill(model, rank_batch, begin, end - begin, false, &i->batch));
    RK_TRY(model->engine->forward(i, output, mine));
    return rk_ranks_all_gather(model->ranks, mine, rank_batch->total, rank_batch->total, output->width, out);
}

/* Longer batches go through in pieces. */
static rk_status forward_in_pieces(rk_inference *i, const rk_rank_batch *rank_batch, const rk_output *output,
                                   float *out) {
    int64_t most = i->model->max_batch;
    for (int64_t first = 0; first < rank_batch->total; first += most) {
        int64_t n = rank_batch->total - first < most ? rank_batch->total - first : most;
        rk_rank_batch piece;
        RK_TRY(i->model->loss->piece(i->model, rank_batch, first, n, &i->extended, &piece));
        rk_status status = forward_local_and_all_gather(i, &piece, output, out + first * output->width);
        if (status != RK_OK && first)
            return rk_error_context(status, "samples from %lld on", (long long)first);
        RK_TRY(status);
    }
    return RK_OK;
}

rk_status rk_inference_predict(rk_inference *i, const rk_rank_batch *rank_batch, float *predictions) {
    const rk_model *model = i->model;
    const rk_output output = {.value = -1, .width = model->n_tasks};
    RK_TRY(rk_model_check_batch(model, rank_batch, false));
    if (rank_batch->total == 0) return RK_OK;
    RK_FAIL_IF(model->loss->extends && model->ranks->is_distributed, RK_UNSUPPORTED,
               "predictions of a two_tower are not supported over several ranks\nhint: start one process, "
               "without mpirun");
    RK_TRY(rk_model_check_no_batch_in_flight(model));
    return forward_in_pieces(i, rank_batch, &output, predictions);
}

rk_status rk_model_predict(rk_model *model, const rk_batch *batch, float *predictions) {
    rk_rank_batch whole = rk_rank_batch_from_batch(batch, RK_NO_TIMESTAMP);
    return rk_model_predict_rank_batch(model, &whole, predictions);
}

/* In scratch until all pieces have gone well: a failure leaves `predictions` untouched. */
rk_status rk_model_predict_rank_batch(rk_model *model, const rk_rank_batch *rank_batch, float *predictions) {
    if (rank_batch->total <= model->max_batch)
        return rk_inference_predict(model->inference, rank_batch, predictions);
    size_t n_values = (size_t)(rank_batch->total * model->n_tasks);
    float *scratch;
    RK_TRY(rk_alloc(n_values, sizeof *scratch, &scratch));
    rk_status status = rk_inference_predict(model->inference, rank_batch, scratch);
    if (status == RK_OK) memcpy(predictions, scratch, n_values * sizeof *scratch);
    rk_free(scratch);
    return status;
}

static rk_output find_vector_output(const rk_model *model, const char *name) {
    return (rk_output){.value = rk_graph_find_value(model->graph, name), .width = rk_model_vector_dim(model)};
}

rk_status rk_inference_user_vectors(rk_inference *i, const rk_batch *batch, const atomic_bool *cancel,
                                    rk_real *out) {
    const rk_model *model = i->model;
    rk_rank_batch whole = rk_rank_batch_from_batch(batch, RK_NO_TIMESTAMP);
    RK_FAIL_IF(!rk_model_is_two_tower(model), RK_INVALID_ARGUMENT, "only a two_tower has vectors of users");
    RK_TRY(rk_model_check_batch(model, &whole, false));
    RK_TRY(rk_model_check_no_batch_in_flight(model));
    rk_output output = find_vector_output(model, "user_vector");
    i->cancel = cancel;
    return forward_in_pieces(i, &whole, &output, out);
}

rk_status rk_inference_item_vectors(rk_inference *i, const int64_t *ids, int64_t n, const atomic_bool *cancel,
                                    rk_real *out) {
    const rk_model *model = i->model;
    RK_FAIL_IF(!rk_model_is_two_tower(model), RK_INVALID_ARGUMENT, "only a two_tower has vectors of items");
    RK_TRY(rk_model_check_no_batch_in_flight(model));
    rk_output output = find_vector_output(model, "item_vector");
    output.of_items = true;
    i->cancel = cancel;
    int64_t most = model->max_batch;
    for (int64_t done = 0; done < n; done += most) {
        int64_t begin, end, some = n - done < most ? n - done : most;
        rk_ranks_local_samples(model->ranks, some, &begin, &end);
        rk_rank_batch piece = {.total = some, .base = begin};
        RK_TRY(
            rk_retrieval_make_item_batch(model, ids + done + begin, end - begin, &i->extended, &piece.batch));
        RK_TRY(forward_local_and_all_gather(i, &piece, &output, out + done * output.width));
    }
    return RK_OK;
}

rk_status rk_model_user_vectors(rk_model *model, const rk_batch *batch, rk_real *out) {
    return rk_inference_user_vectors(model->inference, batch, NULL, out);
}

rk_status rk_model_item_vectors(rk_model *model, const int64_t *ids, int64_t n, rk_real *out) {
    return rk_inference_item_vectors(model->inference, ids, n, NULL, out);
}
