#include "model/inference.h"

#include "base/memory.h"
#include "embedding/local/collection.h"
#include "embedding/local/local_store.h"
#include "model/step/predict.h"
#include "model/step/ranks.h"

rk_status rk_model_freeze_for_inference(rk_model *model) {
    return rk_model_has_device(model) ? RK_OK : rk_graph_freeze(model->graph);
}

static rk_status check_can_share_model(const rk_model *model) {
    RK_FAIL_IF(model->ranks->is_distributed, RK_UNSUPPORTED,
               "threads do not share a model whose rows are on several ranks\nhint: open the predictor "
               "without comm");
    return RK_OK;
}

static rk_status create_inference_store(const rk_embeddings *embeddings, rk_store **out) {
    rk_row_source *source = rk_embeddings_row_source(embeddings);
    return rk_row_source_is_remote(source) ? source->ops->create_store(source, embeddings, out)
                                           : rk_eval_store_create(embeddings, out);
}

rk_status rk_inference_create(rk_model *model, int n_threads, rk_inference **out) {
    rk_inference *i;
    RK_TRY(check_can_share_model(model));
    RK_TRY(rk_alloc(1, sizeof *i, &i));
    rk_status status;
    RK_GOTO(rk_inference_init(model, i));
    if (rk_model_has_device(model)) {
        i->own = model; /* its engine has the memory, and lets one in after the other */
    } else {
        RK_GOTO(create_inference_store(model->embeddings, &i->store));
        RK_GOTO(rk_graph_inference_create(model->graph, n_threads, &i->graph));
    }
    *out = i;
    i = NULL;
done:
    rk_inference_free(i);
    return status;
}

void rk_inference_free(rk_inference *i) {
    if (!i) return;
    rk_graph_inference_free(i->graph);
    rk_inference_release(i);
    RK_FREE_ALL(i->columns, i);
}

/* The columns of the graph's inputs that the context decides, those of an input in ascending order. */
static size_t list_context_columns(const rk_model *model, const rk_context_columns *context,
                                   rk_input_columns *out) {
    size_t n = 0;
    for (int32_t c = 0; model->dense >= 0 && c < model->n_dense; c++)
        if (context->dense[c]) out[n++] = (rk_input_columns){model->dense, c, 1};
    for (int32_t f = 0; f < model->n_lookups; f++) {
        const rk_model_lookup *at = &model->lookups[f];
        if (context->features[at->source]) out[n++] = (rk_input_columns){at->input, at->first, at->width};
    }
    for (int32_t f = 0; f < model->n_lookups; f++) {
        const rk_model_lookup *at = &model->lookups[f];
        if (at->length && context->features[at->source])
            out[n++] = (rk_input_columns){model->lengths, at->length_column, 1};
    }
    return n;
}

static rk_status set_context_columns(rk_inference *i, const rk_context_columns *context) {
    const rk_model *model = i->model;
    if (!context || model->loss->extends || !i->graph) return RK_OK;
    RK_TRY(rk_reserve(&i->columns, &i->columns_capacity, (size_t)(model->n_dense + 2 * model->n_lookups),
                      sizeof *i->columns));
    size_t n = list_context_columns(model, context, i->columns);
    if (n == 0) return RK_OK;
    i->context = context;
    return rk_graph_inference_set_context(i->graph, i->columns, n);
}

rk_status rk_inference_run(rk_inference *i, const rk_batch *batch, const rk_context_columns *context,
                           const atomic_bool *cancel, float *predictions) {
    rk_rank_batch whole = rk_rank_batch_from_batch(batch, RK_NO_TIMESTAMP);
    i->cancel = cancel;
    rk_status status = set_context_columns(i, context);
    if (status == RK_OK) status = rk_inference_predict(i, &whole, predictions);
    i->context = NULL;
    return status;
}
