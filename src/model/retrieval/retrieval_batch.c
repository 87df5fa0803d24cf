#include "model/retrieval/retrieval_batch.h"

#include <string.h>

#include "base/memory.h"

static rk_status allocate_features(rk_retrieval_batch *b, int32_t n_features) {
    if (b->lists) return RK_OK;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)n_features, b->lists), RK_ARRAY((size_t)n_features, b->features)));
    b->n_features = n_features;
    return RK_OK;
}

void rk_retrieval_batch_release(rk_retrieval_batch *b) {
    for (int32_t f = 0; f < b->n_features; f++) rk_id_list_release(&b->lists[f]);
    RK_FREE_ALL(b->lists, b->features, b->dense);
    *b = (rk_retrieval_batch){0};
}

rk_status rk_retrieval_batch_begin(rk_retrieval_batch *b, const rk_batch *like, int64_t first, int64_t n_own,
                                   int64_t n_more) {
    size_t n = (size_t)(n_own + n_more), width = (size_t)like->n_dense, own = (size_t)n_own * width;
    RK_TRY(allocate_features(b, like->n_features + 1));
    b->batch = rk_batch_slice(like, first, n_own + n_more);
    b->batch.labels = b->batch.sample_weights = NULL;
    b->batch.n_features = b->n_features;
    b->batch.features = b->features;
    for (int32_t f = 0; f < b->batch.n_features; f++) {
        rk_id_list_truncate(&b->lists[f], 0);
        b->features[f] = (rk_ids){0}; /* a feature that no tower sees is empty */
    }
    if (width == 0) return RK_OK;
    RK_TRY(rk_reserve(&b->dense, &b->dense_capacity, n * width, sizeof *b->dense));
    if (own) memcpy(b->dense, like->dense + (size_t)first * width, own * sizeof *b->dense);
    memset(b->dense + own, 0, (n * width - own) * sizeof *b->dense);
    b->batch.dense = b->dense;
    return RK_OK;
}

rk_status rk_retrieval_batch_append_ids(rk_retrieval_batch *b, int32_t feature, const rk_ids *from,
                                        int64_t first, int64_t n) {
    RK_TRY(rk_id_list_append(&b->lists[feature], from, first, n));
    b->features[feature].weights = from->weights ? b->lists[feature].weights : NULL;
    return RK_OK;
}

rk_status rk_retrieval_batch_add_id(rk_retrieval_batch *b, int32_t feature, int64_t id) {
    rk_id_list *list = &b->lists[feature];
    RK_TRY(rk_id_list_reserve(list, 1, false));
    list->ids[list->n_ids++] = id;
    return RK_OK;
}

rk_status rk_retrieval_batch_end_sample(rk_retrieval_batch *b, int32_t feature) {
    return rk_id_list_end_sample(&b->lists[feature]);
}

rk_batch rk_retrieval_batch_view(rk_retrieval_batch *b) {
    for (int32_t f = 0; f < b->batch.n_features; f++) {
        const float *weights = b->features[f].weights;
        b->features[f] = rk_id_list_view(&b->lists[f]);
        b->features[f].weights = weights;
    }
    return b->batch;
}
