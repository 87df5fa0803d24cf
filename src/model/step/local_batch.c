/* A trainer's share of a batch, copied: batches wait in a queue while the reader goes on. */
#include <string.h>

#include "base/memory.h"
#include "model/retrieval/retrieval.h"
#include "model/step/data_parallel.h"

/* A two_tower's batches have the history behind the data's features. */
static int32_t n_features_of(const rk_model *model) {
    return model->n_features + (model->retrieval != NULL);
}

rk_status rk_share_init(const rk_model *model, rk_share *share) {
    size_t n_features = (size_t)n_features_of(model);
    *share = (rk_share){0};
    RK_TRY(rk_alloc((size_t)model->n_lookups, sizeof *share->ids, &share->ids));
    RK_TRY(rk_alloc(n_features, sizeof *share->features, &share->features));
    RK_TRY(rk_alloc((size_t)model->n_tasks, sizeof *share->task_samples, &share->task_samples));
    if (model->retrieval) {
        RK_TRY(rk_alloc(1, sizeof *share->pairs, &share->pairs));
        RK_TRY(rk_pairs_init(model->retrieval, model->max_batch, share->pairs));
    }
    return rk_alloc(3 * n_features + 3, sizeof *share->memory, &share->memory);
}

void rk_share_release(const rk_model *model, rk_share *share) {
    for (int32_t i = 0; i < 3 * n_features_of(model) + 3 && share->memory; i++) rk_free(share->memory[i].data);
    if (share->pairs) rk_pairs_release(share->pairs);
    rk_free(share->pairs);
    rk_free(share->memory);
    rk_free(share->features);
    rk_free(share->ids);
    rk_free(share->task_samples);
    *share = (rk_share){0};
}

/* A copy of n values in the share's memory number `place`; NULL of NULL. */
static rk_status copy(rk_share *share, int32_t place, const void *from, int64_t n, size_t bytes, const void **out) {
    struct rk_share_memory *memory = &share->memory[place];
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

static rk_status copy_feature(rk_share *share, int32_t f, const rk_ids *from, int64_t first, int64_t n) {
    int64_t begin = from->offsets ? from->offsets[first] : first * from->ids_per_sample;
    int64_t count = (from->offsets ? from->offsets[first + n] : (first + n) * from->ids_per_sample) - begin;
    const void *offsets, *ids, *weights;
    RK_TRY(copy(share, 3 * f, from->offsets ? from->offsets + first : NULL, n + 1, sizeof *from->offsets, &offsets));
    RK_TRY(copy(share, 3 * f + 1, from->ids ? from->ids + begin : NULL, count, sizeof *from->ids, &ids));
    RK_TRY(copy(share, 3 * f + 2, from->weights ? from->weights + begin : NULL, count, sizeof *from->weights, &weights));
    for (int64_t s = 0; offsets && s <= n; s++) ((int64_t *)share->memory[3 * f].data)[s] -= begin;
    share->features[f] = (rk_ids){.offsets = offsets, .ids_per_sample = from->ids_per_sample, .ids = ids, .weights = weights};
    return RK_OK;
}

rk_status rk_share_fill(const rk_model *model, const rk_batch_part *part, int64_t number, int64_t n, bool labelled, rk_share *share) {
    int32_t n_features = n_features_of(model), place = 3 * n_features;
    const rk_batch *batch = &part->batch;
    int64_t first = n ? number - part->base : 0;
    const void *dense, *labels, *weights;
    RK_FAIL_IF(first < 0 || first + n > batch->n, RK_INVALID_ARGUMENT, "samples %lld to %lld of a batch are not here", (long long)number, (long long)(number + n));
    for (int32_t f = 0; f < n_features; f++) RK_TRY(copy_feature(share, f, &batch->features[f], first, n));
    RK_TRY(copy(share, place, batch->dense ? batch->dense + first * batch->n_dense : NULL, n * batch->n_dense, sizeof *batch->dense, &dense));
    RK_TRY(copy(share, place + 1, labelled ? batch->labels + first * batch->n_tasks : NULL, n * batch->n_tasks, sizeof *batch->labels, &labels));
    RK_TRY(copy(share, place + 2, labelled && batch->sample_weights ? batch->sample_weights + first : NULL, n, sizeof *batch->sample_weights, &weights));
    share->batch = *batch;
    share->batch.n = n;
    share->batch.dense = dense;
    share->batch.features = share->features;
    share->batch.labels = labels;
    share->batch.sample_weights = weights;
    share->batch.groups = NULL;
    share->batch.first_row = batch->first_row + first;
    share->total = part->total;
    share->base = number;
    if (labelled) rk_model_count_samples(model, part, share->task_samples);
    for (int32_t f = 0; f < model->n_lookups; f++) share->ids[f] = share->features[model->lookups[f].source];
    return RK_OK;
}

rk_status rk_share_fill_pairs(rk_model *model, const rk_batch_part *part, int64_t step, rk_share *share) {
    const rk_spread *sp = model->spread;
    int64_t total = part->total + rk_retrieval_n_drawn(model->retrieval), first = rk_spread_cut(sp, sp->rank, total), last = rk_spread_cut(sp, sp->rank + 1, total);
    rk_batch mine;
    RK_FAIL_IF(part->batch.n < part->total, RK_INVALID_ARGUMENT, "a two_tower needs all of a batch on each rank");
    RK_TRY(rk_retrieval_draw(model, &part->batch, step, share->pairs));
    RK_TRY(rk_retrieval_extend(model, &part->batch, share->pairs, first, last, &mine));
    rk_batch_part extended = {.batch = mine, .total = total, .base = first};
    RK_TRY(rk_share_fill(model, &extended, first, last - first, false, share));
    rk_model_count_samples(model, part, share->task_samples);
    return RK_OK;
}
