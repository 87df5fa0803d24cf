/* What the towers give, for rankings. */
#include <string.h>

#include "base/memory.h"
#include "model/cuda/device_step.h"
#include "model/retrieval/retrieval.h"
#include "model/step/data_parallel.h"

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

/* What trainers share, or one process does at once. */
static int64_t piece_of(const rk_model *model) {
    const rk_data_parallel *sp = model->data_parallel;
    return sp ? sp->cuts[sp->roles.n_trainers] : model->max_batch;
}

/* Samples of a piece that are this process's. */
static void cut_piece(const rk_model *model, int64_t n, int64_t *begin, int64_t *end) {
    const rk_data_parallel *sp = model->data_parallel;
    *begin = sp ? rk_data_parallel_split(sp, sp->rank, n) : 0;
    *end = sp ? rk_data_parallel_split(sp, sp->rank + 1, n) : n;
}

static rk_status vectors_of_local_batch(rk_model *model, const rk_batch_part *part, int64_t first, int64_t n,
                                        rk_value value, rk_real *out) {
    rk_local_batch *local_batch = &model->data_parallel->peek;
    RK_TRY(rk_local_batch_fill(model, part, first, n, false, local_batch));
    return rk_device_step_vectors(model, &local_batch->batch, local_batch->ids, value, out);
}

/* A piece of n samples, of which the batch has those of this process; out [n, dim] takes all of them. */
static rk_status forward(rk_model *model, const rk_batch *batch, int64_t n, bool of_items, rk_real *out) {
    int64_t begin, end, dim = rk_model_vector_dim(model);
    cut_piece(model, n, &begin, &end);
    vectors v = {.run = {.model = model, .batch = batch},
                 .value = rk_graph_find(model->graph, of_items ? "item_vector" : "user_vector"),
                 .out = out + begin * dim};
    rk_graph_hooks hooks = {.context = &v, .loss = copy_block, .n_rest = of_items ? end - begin : 0};
    if (!model->data_parallel)
        return model->device_step ? rk_model_vectors_of_device(model, batch, v.value, v.out)
                                  : rk_model_forward(model, batch, hooks);
    rk_batch_part mine = {.batch = *batch, .total = n, .base = begin};
    if (model->device_step)
        RK_TRY(vectors_of_local_batch(model, &mine, begin, end - begin, v.value, v.out));
    else
        RK_TRY(rk_data_parallel_forward(model, &mine, begin, end - begin, hooks));
    return rk_data_parallel_gather(model->data_parallel, v.out, n, n, dim, out);
}

rk_status rk_model_user_vectors(rk_model *model, const rk_batch *batch, rk_real *out) {
    RK_FAIL_IF(!model->retrieval, RK_INVALID_ARGUMENT, "only a two_tower has vectors of users");
    rk_batch_part whole = rk_batch_whole(batch);
    int64_t dim = rk_model_vector_dim(model), piece = piece_of(model);
    RK_TRY(rk_model_check_batch(model, &whole, false));
    if (!model->device_step) RK_TRY(rk_model_flush(model));
    for (int64_t first = 0; first < batch->n; first += piece) {
        int64_t n = batch->n - first < piece ? batch->n - first : piece, begin, end;
        rk_batch mine;
        cut_piece(model, n, &begin, &end);
        RK_TRY(rk_retrieval_extend(model, batch, NULL, first + begin, first + end, &mine));
        RK_TRY(forward(model, &mine, n, false, out + first * dim));
    }
    return RK_OK;
}

rk_status rk_model_item_vectors(rk_model *model, int64_t first, int64_t n, rk_real *out) {
    RK_FAIL_IF(!model->retrieval, RK_INVALID_ARGUMENT, "only a two_tower has vectors of items");
    int64_t dim = rk_model_vector_dim(model), piece = piece_of(model);
    if (!model->device_step) RK_TRY(rk_model_flush(model));
    for (int64_t done = 0; done < n; done += piece) {
        int64_t some = n - done < piece ? n - done : piece, begin, end;
        rk_batch mine;
        cut_piece(model, some, &begin, &end);
        RK_TRY(rk_retrieval_items(model, first + done + begin, end - begin, &mine));
        RK_TRY(forward(model, &mine, some, true, out + done * dim));
    }
    return RK_OK;
}
