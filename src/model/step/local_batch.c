/* A trainer's share of a batch, copied: batches wait in a queue while the reader goes on. */
#include <string.h>

#include "base/memory.h"
#include "model/retrieval/retrieval.h"
#include "model/step/data_parallel.h"

/* A two_tower's batches have the history behind the data's features. */
static int32_t n_features_of(const rk_model *model) {
    return model->n_features + (model->retrieval != NULL);
}

rk_status rk_local_batch_init(const rk_model *model, rk_local_batch *local_batch) {
    size_t n_features = (size_t)n_features_of(model);
    *local_batch = (rk_local_batch){0};
    RK_TRY(rk_alloc((size_t)model->n_lookups, sizeof *local_batch->ids, &local_batch->ids));
    RK_TRY(rk_alloc(n_features, sizeof *local_batch->features, &local_batch->features));
    RK_TRY(rk_alloc((size_t)model->n_tasks, sizeof *local_batch->task_samples, &local_batch->task_samples));
    if (model->retrieval) {
        RK_TRY(rk_alloc(1, sizeof *local_batch->pairs, &local_batch->pairs));
        RK_TRY(rk_pairs_init(model->retrieval, model->max_batch, local_batch->pairs));
    }
    return rk_alloc(3 * n_features + 3, sizeof *local_batch->memory, &local_batch->memory);
}

void rk_local_batch_release(const rk_model *model, rk_local_batch *local_batch) {
    for (int32_t i = 0; i < 3 * n_features_of(model) + 3 && local_batch->memory; i++)
        rk_free(local_batch->memory[i].data);
    if (local_batch->pairs) rk_pairs_release(local_batch->pairs);
    rk_free(local_batch->pairs);
    rk_free(local_batch->memory);
    rk_free(local_batch->features);
    rk_free(local_batch->ids);
    rk_free(local_batch->task_samples);
    *local_batch = (rk_local_batch){0};
}

/* A copy of n values in the share's memory number `place`; NULL of NULL. */
static rk_status copy(rk_local_batch *local_batch, int32_t place, const void *from, int64_t n, size_t bytes,
                      const void **out) {
    struct rk_local_batch_memory *memory = &local_batch->memory[place];
    size_t wanted = (size_t)n * bytes;
    *out = NULL;
    if (!from) return RK_OK;
    if (wanted > memory->capacity || !memory->data) {
        memory->capacity = wanted + wanted / 4 + 64;
        RK_TRY(rk_realloc(memory->capacity, 1, &memory->data));
    }
    if (wanted) memcpy(memory->data, from, wanted);
    *out = memory->data;
    return RK_OK;
}

static rk_status copy_feature(rk_local_batch *local_batch, int32_t f, const rk_ids *from, int64_t first,
                              int64_t n) {
    int64_t begin = from->offsets ? from->offsets[first] : first * from->ids_per_sample;
    int64_t count = (from->offsets ? from->offsets[first + n] : (first + n) * from->ids_per_sample) - begin;
    const void *offsets, *ids, *weights;
    RK_TRY(copy(local_batch, 3 * f, from->offsets ? from->offsets + first : NULL, n + 1,
                sizeof *from->offsets, &offsets));
    RK_TRY(
        copy(local_batch, 3 * f + 1, from->ids ? from->ids + begin : NULL, count, sizeof *from->ids, &ids));
    RK_TRY(copy(local_batch, 3 * f + 2, from->weights ? from->weights + begin : NULL, count,
                sizeof *from->weights, &weights));
    for (int64_t s = 0; offsets && s <= n; s++) ((int64_t *)local_batch->memory[3 * f].data)[s] -= begin;
    local_batch->features[f] =
        (rk_ids){.offsets = offsets, .ids_per_sample = from->ids_per_sample, .ids = ids, .weights = weights};
    return RK_OK;
}

rk_status rk_local_batch_fill(const rk_model *model, const rk_batch_part *part, int64_t number, int64_t n,
                              bool labelled, rk_local_batch *local_batch) {
    int32_t n_features = n_features_of(model), place = 3 * n_features;
    const rk_batch *batch = &part->batch;
    int64_t first = n ? number - part->base : 0;
    const void *dense, *labels, *weights;
    RK_FAIL_IF(first < 0 || first + n > batch->n, RK_INVALID_ARGUMENT,
               "samples %lld to %lld of a batch are not here", (long long)number, (long long)(number + n));
    for (int32_t f = 0; f < n_features; f++)
        RK_TRY(copy_feature(local_batch, f, &batch->features[f], first, n));
    RK_TRY(copy(local_batch, place, batch->dense ? batch->dense + first * batch->n_dense : NULL,
                n * batch->n_dense, sizeof *batch->dense, &dense));
    RK_TRY(copy(local_batch, place + 1, labelled ? batch->labels + first * batch->n_tasks : NULL,
                n * batch->n_tasks, sizeof *batch->labels, &labels));
    RK_TRY(copy(local_batch, place + 2,
                labelled && batch->sample_weights ? batch->sample_weights + first : NULL, n,
                sizeof *batch->sample_weights, &weights));
    local_batch->batch = *batch;
    local_batch->batch.n = n;
    local_batch->batch.dense = dense;
    local_batch->batch.features = local_batch->features;
    local_batch->batch.labels = labels;
    local_batch->batch.sample_weights = weights;
    local_batch->batch.groups = NULL;
    local_batch->batch.first_row = batch->first_row + first;
    local_batch->total = part->total;
    local_batch->base = number;
    if (labelled) rk_model_count_samples(model, part, local_batch->task_samples);
    for (int32_t f = 0; f < model->n_lookups; f++)
        local_batch->ids[f] = local_batch->features[model->lookups[f].source];
    return RK_OK;
}

rk_status rk_local_batch_fill_pairs(rk_model *model, const rk_batch_part *part, int64_t step,
                                    rk_local_batch *local_batch) {
    const rk_data_parallel *sp = model->data_parallel;
    int64_t total = part->total + rk_retrieval_n_negatives(model->retrieval),
            first = rk_data_parallel_split(sp, sp->rank, total),
            last = rk_data_parallel_split(sp, sp->rank + 1, total);
    rk_batch mine;
    RK_FAIL_IF(part->batch.n < part->total, RK_INVALID_ARGUMENT,
               "a two_tower needs all of a batch on each rank");
    RK_TRY(rk_retrieval_draw(model, &part->batch, step, local_batch->pairs));
    RK_TRY(rk_retrieval_extend(model, &part->batch, local_batch->pairs, first, last, &mine));
    rk_batch_part extended = {.batch = mine, .total = total, .base = first};
    RK_TRY(rk_local_batch_fill(model, &extended, first, last - first, false, local_batch));
    rk_model_count_samples(model, part, local_batch->task_samples);
    return RK_OK;
}
