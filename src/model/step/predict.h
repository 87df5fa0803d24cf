/* Prediction by a model (predict.c). */
#ifndef RK_MODEL_STEP_PREDICT_H
#define RK_MODEL_STEP_PREDICT_H

#include "model/inference.h"
#include "model/retrieval/retrieval_batch.h"
#include "model/step/local_batch.h"

/* What a forward pass gives, for each sample: predictions [n_tasks], or a row of the graph [dim]. */
typedef struct rk_output {
    rk_value value; /* -1: predictions */
    int64_t width;
    bool of_items; /* of a two_tower: nothing is asked of the users' side */
} rk_output;

/* The model's own, of which its engine's memory and its store are a part; or a thread's, with a graph's
 * memory and a store of its own, which changes nothing of the model. On a GPU a thread's has the model's. */
struct rk_inference {
    const rk_model *model;
    rk_model *own; /* the same where its engine's memory is used; else NULL */
    rk_local_batch batch;
    rk_retrieval_batch extended; /* of a two_tower: with histories */
    rk_store *store;
    rk_graph_inference *graph;         /* a thread's; else NULL */
    const atomic_bool *cancel;         /* rk_graph_inference_run's */
    const rk_context_columns *context; /* of a thread's: of the batch under way, or NULL */
    rk_input_columns *columns;         /* its columns of the graph's inputs */
    size_t columns_capacity;
};

rk_status rk_inference_init(const rk_model *model, rk_inference *out);
void rk_inference_release(rk_inference *inference);
/* predictions [rank_batch->total, n_tasks]; a failure leaves them untouched where that is more than one
 * piece. */
rk_status rk_inference_predict(rk_inference *inference, const rk_rank_batch *rank_batch, float *predictions);
/* No batch is under way. */
rk_status rk_model_check_no_batch_in_flight(const rk_model *model);

#endif
