#include "model/inference.h"

#include "base/memory.h"
#include "embedding/local/local_store.h"
#include "model/step/predict.h"

rk_status rk_model_freeze(rk_model *model) {
    return rk_model_has_device(model) ? RK_OK : rk_graph_freeze(model->graph);
}

static rk_status check_shared(const rk_model *model) {
    RK_FAIL_IF(rk_model_has_device(model), RK_UNSUPPORTED,
               "threads do not share a model on a GPU\nhint: open the predictor with device \"cpu\"");
    RK_FAIL_IF(rk_model_trainers(model), RK_UNSUPPORTED,
               "threads do not share a model whose rows are on several ranks\nhint: open the predictor "
               "without comm");
    return RK_OK;
}

rk_status rk_inference_create(const rk_model *model, int n_threads, rk_inference **out) {
    rk_inference *i;
    RK_TRY(check_shared(model));
    RK_TRY(rk_alloc(1, sizeof *i, &i));
    rk_status status;
    RK_GOTO(rk_inference_init(model, i));
    if (model->embeddings) RK_GOTO(rk_peek_store_create(model->embeddings, &i->store));
    RK_GOTO(rk_graph_inference_create(model->graph, n_threads, &i->graph));
    *out = i;
    i = NULL;
done:
    rk_inference_free(i);
    return status;
}

void rk_inference_free(rk_inference *i) {
    if (!i) return;
    rk_graph_inference_free(i->graph);
    if (i->store != i->model->store) i->store->ops->free(i->store);
    rk_inference_release(i);
    rk_free(i);
}

rk_status rk_inference_run(rk_inference *i, const rk_batch *batch, const atomic_bool *cancel,
                           float *predictions) {
    rk_rank_batch whole = rk_rank_batch_whole(batch);
    i->cancel = cancel;
    return rk_inference_predict(i, &whole, predictions);
}
