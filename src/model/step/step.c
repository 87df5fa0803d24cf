/* The one way of a batch through a model. Its local batch enters the queue and its ids are sent off; the
 * oldest in the queue is launched by the engine; the oldest that was launched is finished when more are in
 * flight than allowed. Predictions: predict.c. */
#include <math.h>

#include "base/memory.h"
#include "base/thread/trace.h"
#include "model/step/engine.h"
#include "model/step/ranks.h"
#include "model/step/reducer.h"

static rk_local_batch *queue_slot_of_batch(rk_model *model, int64_t number) {
    return &model->queue.slots[(size_t)number % model->queue.n_slots];
}

static rk_status finish_oldest_batch(rk_model *model, double *loss) {
    return model->engine->finish(model, queue_slot_of_batch(model, model->queue.n_finished++), loss);
}

/* A batch that fails is gone. */
static rk_status launch_oldest_batch(rk_model *model) {
    rk_model_queue *q = &model->queue;
    rk_status status = model->engine->launch(model, queue_slot_of_batch(model, q->n_launched));
    if (status != RK_OK) q->n_finished++;
    q->n_launched++;
    return status;
}

/* The oldest batch that was begun; *loss is the step's that is finished, if one is. */
static rk_status advance_queue(rk_model *model, double *loss) {
    rk_model_queue *q = &model->queue;
    if (q->exclusive && q->n_finished < q->n_launched) {
        rk_status status = finish_oldest_batch(model, loss);
        if (status != RK_OK) {
            model->engine->cancel(model);
            q->n_begun--;
            return status;
        }
    }
    RK_TRY(launch_oldest_batch(model));
    return q->n_launched - q->n_finished > q->depth ? finish_oldest_batch(model, loss) : RK_OK;
}

static rk_status begin_queued_batch(rk_model *model, const rk_rank_batch *rank_batch) {
    rk_model_queue *q = &model->queue;
    rk_local_batch *batch = queue_slot_of_batch(model, q->n_begun);
    uint64_t began = rk_trace_begin();
    RK_TRY(model->loss->fill(model, rank_batch, model->step + q->n_begun - q->n_finished, batch));
    RK_TRY(model->engine->begin(model, batch));
    rk_trace_end(began, "dedup");
    q->n_begun++;
    return RK_OK;
}

void rk_model_set_next_batch(rk_model *model, const rk_rank_batch *next) {
    model->queue.next = next;
}

/* This rank's samples of the batch to come. A lookup of what is no feature of the data, as a history is,
 * waits for its batch. */
static void prefetch_rows_of_next_batch(rk_model *model) {
    rk_model_queue *q = &model->queue;
    const rk_rank_batch *next = q->next;
    int64_t begin, end;
    if (!next || next->batch.n_features != model->n_features) return;
    rk_ranks_local_samples(model->ranks, next->total, &begin, &end);
    begin -= next->base, end -= next->base;
    if (begin < 0 || begin > end || end > next->batch.n) return;
    for (int32_t f = 0; f < model->n_lookups; f++) {
        int32_t source = model->lookups[f].source;
        q->next_ids[f] = source < model->n_features ? next->batch.features[source] : (rk_ids){0};
    }
    model->store->ops->prefetch(model->store, begin, end - begin, q->next_ids);
}

rk_status rk_model_set_timestamp(rk_model *model, double seconds) {
    return rk_timestamp_of_batch(seconds, &model->timestamp);
}

rk_status rk_model_train(rk_model *model, const rk_batch *batch, double *loss) {
    rk_rank_batch whole = rk_rank_batch_from_batch(batch, model->timestamp);
    return rk_model_train_rank_batch(model, &whole, loss);
}

rk_status rk_model_train_rank_batch(rk_model *model, const rk_rank_batch *rank_batch, double *loss) {
    const rk_model_queue *q = &model->queue;
    double found = NAN;
    RK_FAIL_IF(!model->optimizer, RK_INVALID_ARGUMENT,
               "the model was built for prediction, not for training");
    rk_status status = rk_model_check_batch(model, rank_batch, true);
    if (status == RK_OK) prefetch_rows_of_next_batch(model);
    if (status == RK_OK) model->store->ops->set_timestamp(model->store, rank_batch->timestamp);
    if (status == RK_OK) status = begin_queued_batch(model, rank_batch);
    model->queue.next = NULL;
    RK_TRY(status);
    if (q->n_begun - q->n_launched >= (int64_t)q->n_slots) RK_TRY(advance_queue(model, &found));
    *loss = found;
    return RK_OK;
}

rk_status rk_model_finish_oldest_batch(rk_model *model, double *loss, bool *left) {
    const rk_model_queue *q = &model->queue;
    double found = NAN;
    bool begun = q->n_launched < q->n_begun;
    *left = begun || q->n_finished < q->n_launched;
    if (begun) RK_TRY(advance_queue(model, &found));
    if (!begun && *left) RK_TRY(finish_oldest_batch(model, &found));
    if (*left) *loss = found;
    return RK_OK;
}

rk_status rk_model_flush(rk_model *model) {
    return model->engine->flush(model);
}

rk_status rk_model_reload(rk_model *model) {
    RK_TRY(model->store->ops->reload(model->store));
    return model->engine->reload(model);
}
