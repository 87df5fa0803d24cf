/* The local batch of a trainer, as a view or a copy: checked, filled, read. */
#include <string.h>

#include "base/memory.h"
#include "model/step/local_batch.h"
#include "model/step/ranks.h"

rk_status rk_local_batch_init(const rk_model *model, bool copies, rk_local_batch *local_batch) {
    size_t n_features = (size_t)model->n_batch_features;
    *local_batch = (rk_local_batch){.copies = copies};
    return RK_ALLOC_ALL(RK_ARRAY((size_t)model->n_lookups, local_batch->ids),
                        RK_ARRAY(n_features, local_batch->features),
                        RK_ARRAY((size_t)model->n_tasks, local_batch->task_samples),
                        RK_ARRAY(n_features, local_batch->lists));
}

void rk_local_batch_release(const rk_model *model, rk_local_batch *local_batch) {
    for (int32_t f = 0; f < model->n_batch_features && local_batch->lists; f++)
        rk_id_list_release(&local_batch->lists[f]);
    for (int i = 0; i < 3; i++) rk_free(local_batch->columns[i].values);
    RK_FREE_ALL(local_batch->pairs.ids, local_batch->pairs.weights, local_batch->lists, local_batch->features,
                local_batch->ids, local_batch->task_samples);
    *local_batch = (rk_local_batch){0};
}

rk_status rk_model_check_batch(const rk_model *model, const rk_rank_batch *rank_batch, bool labelled) {
    const rk_batch *batch = &rank_batch->batch;
    RK_FAIL_IF(model->is_outline, RK_INVALID_ARGUMENT,
               "the model is an outline without rows, which can only be described\nhint: create it with "
               "rk_model_create");
    RK_FAIL_IF(batch->n < 0 || (labelled && rank_batch->total == 0), RK_INVALID_ARGUMENT,
               "invalid number of samples in a batch: %lld", (long long)rank_batch->total);
    RK_FAIL_IF(rank_batch->base < 0 || batch->n > rank_batch->total - rank_batch->base ||
                   (model->ranks->roles.n_trainers == 1 && batch->n < rank_batch->total),
               RK_INVALID_ARGUMENT, "samples %lld to %lld are an invalid part of a batch of %lld",
               (long long)rank_batch->base, (long long)(rank_batch->base + batch->n),
               (long long)rank_batch->total);
    RK_FAIL_IF(batch->n_dense != model->n_dense, RK_INVALID_ARGUMENT,
               "the batch has %d dense numbers a sample, but the model takes %d", batch->n_dense,
               model->n_dense);
    RK_FAIL_IF(batch->n_features != model->n_features, RK_INVALID_ARGUMENT,
               "the batch has %d features, but the model takes %d", batch->n_features, model->n_features);
    RK_FAIL_IF((batch->n && batch->n_dense && !batch->dense) || (batch->n_features && !batch->features),
               RK_INVALID_ARGUMENT, "the batch's dense numbers or features are missing");
    if (!labelled) return RK_OK;
    bool pairs = rk_model_is_two_tower(model);
    int64_t most = pairs ? model->step_batch : model->max_batch; /* a loss of pairs has room for a step */
    RK_FAIL_IF(rank_batch->total > most, RK_INVALID_ARGUMENT,
               "the batch has %lld samples, but the model was created for up to %lld",
               (long long)rank_batch->total, (long long)most);
    RK_FAIL_IF(!batch->labels && !pairs, RK_INVALID_ARGUMENT, "training needs labels");
    RK_FAIL_IF(batch->n_tasks != model->n_tasks && !pairs, RK_INVALID_ARGUMENT,
               "the batch has %d labels a sample, but the model has %d tasks", batch->n_tasks,
               model->n_tasks);
    for (int64_t i = 0; batch->sample_weights && i < batch->n; i++)
        RK_FAIL_IF(batch->sample_weights[i] < 0, RK_BAD_DATA, "row %lld: the sample weight %g is negative",
                   (long long)(batch->first_row + i), batch->sample_weights[i]);
    return RK_OK;
}

/* The feature's samples, in the local batch's memory if it is a copy. */
static rk_status set_ids_of_local_samples(rk_local_batch *local_batch, int32_t f, const rk_ids *from,
                                          int64_t first, int64_t n) {
    rk_id_list *list = &local_batch->lists[f];
    if (!local_batch->copies) return rk_id_list_slice(list, from, first, n, &local_batch->features[f]);
    rk_id_list_truncate(list, 0);
    RK_TRY(rk_id_list_append(list, from, first, n));
    local_batch->features[f] = rk_id_list_view(list);
    return RK_OK;
}

/* *values [n] become the local batch's own if it is a copy; NULL stays. */
static rk_status set_column_values(rk_local_batch *local_batch, int i, int64_t n, const float **values) {
    struct rk_local_batch_column *column = &local_batch->columns[i];
    if (!local_batch->copies || !*values) return RK_OK;
    RK_TRY(rk_reserve(&column->values, &column->capacity, (size_t)n + 1, sizeof *column->values));
    memcpy(column->values, *values, (size_t)n * sizeof **values);
    *values = column->values;
    return RK_OK;
}

rk_status rk_local_batch_fill(const rk_model *model, const rk_rank_batch *rank_batch, int64_t number,
                              int64_t n, bool labelled, rk_local_batch *local_batch) {
    const rk_batch *batch = &rank_batch->batch;
    int64_t first = n ? number - rank_batch->base : 0;
    RK_FAIL_IF(first < 0 || first + n > batch->n, RK_INVALID_ARGUMENT,
               "samples %lld to %lld of the batch are missing on this rank", (long long)number,
               (long long)(number + n));
    rk_batch mine = rk_batch_slice(batch, first, n);
    mine.groups = NULL;
    if (!labelled) mine.labels = mine.sample_weights = NULL;
    for (int32_t f = 0; f < model->n_batch_features; f++)
        RK_TRY(set_ids_of_local_samples(local_batch, f, &batch->features[f], first, n));
    RK_TRY(set_column_values(local_batch, 0, n * mine.n_dense, &mine.dense));
    RK_TRY(set_column_values(local_batch, 1, n * mine.n_tasks, &mine.labels));
    RK_TRY(set_column_values(local_batch, 2, n, &mine.sample_weights));
    mine.features = local_batch->features;
    local_batch->batch = mine;
    local_batch->total = rank_batch->total;
    local_batch->base = number;
    for (int32_t f = 0; f < model->n_lookups; f++)
        local_batch->ids[f] = local_batch->features[model->lookups[f].source];
    return RK_OK;
}

/* As the lookup has it: negative ids that are no keys are dropped, the rest is cut to the feature's length.
 */
void rk_model_compute_lengths(const rk_model *model, const rk_ids *of, int64_t first, int64_t n,
                              rk_real *out) {
    int32_t width = model->lengths >= 0 ? rk_graph_shape(model->graph, model->lengths).cols : 0;
    for (int32_t f = 0; f < model->n_lookups && width; f++) {
        const rk_model_lookup *at = &model->lookups[f];
        const rk_ids *ids = &of[f];
        rk_real *to = out + at->length_column;
        for (int64_t s = first; s < first + n && at->length; s++, to += width) {
            int64_t begin = rk_ids_begin_of_sample(ids, s), end = rk_ids_begin_of_sample(ids, s + 1);
            int32_t length = 0;
            for (int64_t i = begin; i < end && length < at->length; i++)
                length += at->keys || ids->ids[i] >= 0;
            *to = (rk_real)length;
        }
    }
}

void rk_model_fill_lengths(const rk_model_run *r, const rk_run *run) {
    if (r->model->lengths >= 0)
        rk_model_compute_lengths(r->model, r->ids, run->first, run->n, rk_run_data(run, r->model->lengths));
}
