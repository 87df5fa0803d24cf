/* What the towers give, for rankings. */
#include <string.h>

#include "model/retrieval.h"

int32_t rk_model_vector_dim(const rk_model *model) {
    return model->retrieval ? rk_graph_shape(model->graph, rk_graph_find(model->graph, "user_vector")).cols : 0;
}

typedef struct vectors {
    rk_model_run run; /* first: lookups take the context for it */
    rk_value value;
    rk_real *out;
} vectors;

static rk_status copy_block(void *context, const rk_run *run) {
    const vectors *v = context;
    int64_t dim = rk_graph_shape(run->graph, v->value).cols;
    memcpy(v->out + run->first * dim, rk_run_data(run, v->value), (size_t)(run->n * dim) * sizeof *v->out);
    return RK_OK;
}

static rk_status forward(rk_model *model, const rk_batch *batch, const char *value, rk_real *out) {
    vectors v = {.run = {.model = model, .batch = batch}, .value = rk_graph_find(model->graph, value), .out = out};
    return rk_model_forward(model, batch, (rk_graph_hooks){.context = &v, .loss = copy_block});
}

rk_status rk_model_user_vectors(rk_model *model, const rk_batch *batch, rk_real *out) {
    RK_FAIL_IF(!model->retrieval, RK_INVALID_ARGUMENT, "only a two_tower has vectors of users");
    RK_FAIL_IF(batch->n > model->max_batch, RK_INVALID_ARGUMENT, "a batch of %lld samples, the model takes up to %lld", (long long)batch->n, (long long)model->max_batch);
    rk_batch_part whole = rk_batch_whole(batch);
    RK_TRY(rk_model_check_batch(model, &whole, false));
    RK_TRY(rk_model_settle(model));
    rk_batch extended;
    RK_TRY(rk_retrieval_extend(model, batch, false, &extended));
    return forward(model, &extended, "user_vector", out);
}

rk_status rk_model_item_vectors(rk_model *model, int64_t first, int64_t n, rk_real *out) {
    RK_FAIL_IF(!model->retrieval, RK_INVALID_ARGUMENT, "only a two_tower has vectors of items");
    int64_t dim = rk_model_vector_dim(model);
    rk_status status = rk_model_settle(model);
    for (int64_t done = 0; done < n && status == RK_OK;) {
        int64_t some = n - done < model->max_batch ? n - done : model->max_batch;
        rk_batch batch;
        status = rk_retrieval_items(model, first + done, some, &batch);
        if (status == RK_OK) status = forward(model, &batch, "item_vector", out + done * dim);
        done += some;
    }
    return status;
}
