/* The one way of a batch through a model: its local part is put in the queue and its ids set off; the oldest
 * in the queue goes through the engine; the oldest that did is finished, once more are under way than may be.
 * Predictions go through in pieces. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/thread/trace.h"
#include "model/retrieval/retrieval.h"
#include "model/step/engine.h"
#include "model/step/ranks.h"
#include "model/step/reducer.h"

static rk_local_batch *slot(rk_model *model, int64_t number) {
    return &model->queue.slots[(size_t)number % model->queue.n_slots];
}

static rk_status finish_oldest(rk_model *model, double *loss) {
    return model->engine->finish(model, slot(model, model->queue.n_finished++), loss);
}

/* A batch that fails is gone. */
static rk_status launch_oldest(rk_model *model) {
    rk_model_queue *q = &model->queue;
    rk_status status = model->engine->launch(model, slot(model, q->n_launched));
    if (status != RK_OK) q->n_finished++;
    q->n_launched++;
    return status;
}

/* The oldest batch that was begun; *loss is the step's that is finished, if one is. */
static rk_status advance(rk_model *model, double *loss) {
    rk_model_queue *q = &model->queue;
    if (q->exclusive && q->n_finished < q->n_launched) {
        rk_status status = finish_oldest(model, loss);
        if (status != RK_OK) {
            model->engine->cancel(model);
            q->n_begun--;
            return status;
        }
    }
    RK_TRY(launch_oldest(model));
    return q->n_launched - q->n_finished > q->depth ? finish_oldest(model, loss) : RK_OK;
}

static rk_status begin(rk_model *model, const rk_batch_part *part) {
    rk_model_queue *q = &model->queue;
    rk_local_batch *batch = slot(model, q->n_begun);
    uint64_t began = rk_trace_begin();
    RK_TRY(model->loss->fill(model, part, model->step + q->n_begun - q->n_finished, batch));
    RK_TRY(model->engine->begin(model, batch));
    rk_trace_end(began, "route");
    q->n_begun++;
    return RK_OK;
}

rk_status rk_model_train(rk_model *model, const rk_batch *batch, double *loss) {
    rk_batch_part whole = rk_batch_whole(batch);
    return rk_model_train_part(model, &whole, loss);
}

rk_status rk_model_train_part(rk_model *model, const rk_batch_part *part, double *loss) {
    const rk_model_queue *q = &model->queue;
    double found = NAN;
    RK_FAIL_IF(!model->optimizer, RK_INVALID_ARGUMENT,
               "the model was built for prediction, not for training");
    RK_TRY(rk_model_check_batch(model, part, true));
    RK_TRY(begin(model, part));
    if (q->n_begun - q->n_launched >= (int64_t)q->n_slots) RK_TRY(advance(model, &found));
    *loss = found;
    return RK_OK;
}

rk_status rk_model_drain(rk_model *model, double *loss, bool *left) {
    const rk_model_queue *q = &model->queue;
    double found = NAN;
    bool begun = q->n_launched < q->n_begun;
    *left = begun || q->n_finished < q->n_launched;
    if (begun) RK_TRY(advance(model, &found));
    if (!begun && *left) RK_TRY(finish_oldest(model, &found));
    if (*left) *loss = found;
    return RK_OK;
}

static rk_status need_drained(const rk_model *model) {
    RK_FAIL_IF(model->queue.n_finished < model->queue.n_begun, RK_INVALID_ARGUMENT,
               "a batch is still in flight: drain the model first");
    return RK_OK;
}

/* Samples of a batch, or of a piece of it, to what `output` says: each trainer does its own, and all get all.
 * out [part->total, width]. */
static rk_status forward(rk_model *model, const rk_batch_part *part, const rk_output *output, float *out) {
    int64_t begin, end;
    rk_ranks_span(model->ranks, part->total, &begin, &end);
    float *mine = out + begin * output->width;
    RK_TRY(rk_local_batch_fill(model, part, begin, end - begin, false, model->queue.peek));
    RK_TRY(model->engine->forward(model, model->queue.peek, output, mine));
    return rk_ranks_gather(model->ranks, mine, part->total, part->total, output->width, out);
}

/* Samples first .. first+n-1 as a part of their own. The batch of a two_tower gets histories. */
static rk_status piece_of(rk_model *model, const rk_batch_part *part, int64_t first, int64_t n,
                          rk_batch_part *out) {
    *out = (rk_batch_part){.batch = part->batch, .total = n, .base = part->base - first};
    if (!model->retrieval) return RK_OK;
    int64_t begin, end;
    rk_ranks_span(model->ranks, n, &begin, &end);
    out->base = begin;
    return rk_retrieval_extend(model, &part->batch, NULL, first + begin, first + end, &out->batch);
}

/* Longer batches go through in pieces. */
static rk_status forward_pieces(rk_model *model, const rk_batch_part *part, const rk_output *output,
                                float *out) {
    int64_t most = model->max_batch;
    for (int64_t first = 0; first < part->total; first += most) {
        int64_t n = part->total - first < most ? part->total - first : most;
        rk_batch_part piece;
        RK_TRY(piece_of(model, part, first, n, &piece));
        rk_status status = forward(model, &piece, output, out + first * output->width);
        if (status != RK_OK && first)
            return rk_error_context(status, "samples from %lld on", (long long)first);
        RK_TRY(status);
    }
    return RK_OK;
}

rk_status rk_model_predict(rk_model *model, const rk_batch *batch, float *predictions) {
    rk_batch_part whole = rk_batch_whole(batch);
    return rk_model_predict_part(model, &whole, predictions);
}

/* In scratch until all pieces have gone well: a failure leaves `predictions` untouched. */
rk_status rk_model_predict_part(rk_model *model, const rk_batch_part *part, float *predictions) {
    const rk_output output = {.value = -1, .width = model->n_tasks};
    size_t n_values = (size_t)(part->total * model->n_tasks);
    float *scratch;
    RK_TRY(rk_model_check_batch(model, part, false));
    if (part->total == 0) return RK_OK;
    RK_FAIL_IF(model->retrieval && model->ranks->comm, RK_UNSUPPORTED,
               "predictions of a two_tower are not supported over several ranks\nhint: start one process, "
               "without mpirun");
    RK_TRY(need_drained(model));
    if (part->total <= model->max_batch) return forward_pieces(model, part, &output, predictions);
    RK_TRY(rk_alloc(n_values, sizeof *scratch, &scratch));
    rk_status status = forward_pieces(model, part, &output, scratch);
    if (status == RK_OK) memcpy(predictions, scratch, n_values * sizeof *scratch);
    rk_free(scratch);
    return status;
}

static rk_output vectors_of(const rk_model *model, const char *name) {
    return (rk_output){.value = rk_graph_find(model->graph, name), .width = rk_model_vector_dim(model)};
}

rk_status rk_model_user_vectors(rk_model *model, const rk_batch *batch, rk_real *out) {
    rk_batch_part whole = rk_batch_whole(batch);
    RK_FAIL_IF(!model->retrieval, RK_INVALID_ARGUMENT, "only a two_tower has vectors of users");
    RK_TRY(rk_model_check_batch(model, &whole, false));
    RK_TRY(need_drained(model));
    rk_output output = vectors_of(model, "user_vector");
    return forward_pieces(model, &whole, &output, out);
}

rk_status rk_model_item_vectors(rk_model *model, int64_t first, int64_t n, rk_real *out) {
    RK_FAIL_IF(!model->retrieval, RK_INVALID_ARGUMENT, "only a two_tower has vectors of items");
    RK_TRY(need_drained(model));
    rk_output output = vectors_of(model, "item_vector");
    output.of_items = true;
    int64_t most = model->max_batch;
    for (int64_t done = 0; done < n; done += most) {
        int64_t begin, end, some = n - done < most ? n - done : most;
        rk_ranks_span(model->ranks, some, &begin, &end);
        rk_batch_part piece = {.total = some, .base = begin};
        RK_TRY(rk_retrieval_items(model, first + done + begin, end - begin, &piece.batch));
        RK_TRY(forward(model, &piece, &output, out + done * output.width));
    }
    return RK_OK;
}

rk_status rk_model_flush(rk_model *model) {
    return model->engine->flush(model);
}

rk_status rk_model_reload(rk_model *model) {
    model->store->ops->reload(model->store);
    return model->engine->reload(model);
}
