#include "model/retrieval/retrieval_batch.h"

#include <string.h>

#include "base/memory.h"

rk_status rk_retrieval_batch_init(rk_retrieval_batch *b, int32_t n_features) {
    RK_TRY(rk_alloc((size_t)n_features, sizeof *b->columns, &b->columns));
    return rk_alloc((size_t)n_features, sizeof *b->features, &b->features);
}

void rk_retrieval_batch_release(rk_retrieval_batch *b, int32_t n_features) {
    for (int32_t f = 0; b->columns && f < n_features; f++) {
        rk_free(b->columns[f].offsets);
        rk_free(b->columns[f].ids);
        rk_free(b->columns[f].weights);
    }
    rk_free(b->columns);
    rk_free(b->features);
    rk_free(b->dense);
    *b = (rk_retrieval_batch){0};
}

/* Room for n elements; what is there stays. */
static rk_status reserve(void *array, size_t n, size_t *capacity, size_t bytes) {
    if (n <= *capacity) return RK_OK;
    size_t wanted = n + n / 2 + 64;
    RK_TRY(rk_realloc(wanted, bytes, array));
    *capacity = wanted;
    return RK_OK;
}

rk_status rk_retrieval_batch_begin(rk_retrieval_batch *b, const rk_batch *like, int64_t first, int64_t n_own,
                                   int64_t n_more) {
    size_t n = (size_t)(n_own + n_more), width = (size_t)like->n_dense, own = (size_t)n_own * width;
    b->batch = *like;
    b->batch.n = n_own + n_more;
    b->batch.first_row = like->first_row + first;
    b->batch.labels = NULL;
    b->batch.sample_weights = NULL;
    b->batch.n_features = like->n_features + 1;
    b->batch.features = b->features;
    for (int32_t f = 0; f < b->batch.n_features; f++) {
        rk_retrieval_column *c = &b->columns[f];
        c->n_ids = 0;
        RK_TRY(reserve(&c->offsets, n + 1, &c->offsets_capacity, sizeof *c->offsets));
        memset(c->offsets, 0, (n + 1) * sizeof *c->offsets); /* features that no tower sees are empty */
        b->features[f] = (rk_ids){.offsets = c->offsets};
    }
    if (width == 0) return RK_OK;
    RK_TRY(reserve(&b->dense, n * width, &b->dense_capacity, sizeof *b->dense));
    if (own) memcpy(b->dense, like->dense + (size_t)first * width, own * sizeof *b->dense);
    memset(b->dense + own, 0, (n * width - own) * sizeof *b->dense);
    b->batch.dense = b->dense;
    return RK_OK;
}

rk_status rk_retrieval_batch_copy(rk_retrieval_batch *b, int32_t feature, const rk_ids *from, int64_t first,
                                  int64_t n) {
    rk_retrieval_column *c = &b->columns[feature];
    int64_t begin = from->offsets ? from->offsets[first] : first * from->ids_per_sample,
            n_ids = from->offsets ? from->offsets[first + n] - begin : n * from->ids_per_sample;
    RK_TRY(reserve(&c->ids, (size_t)n_ids, &c->ids_capacity, sizeof *c->ids));
    if (n_ids) memcpy(c->ids, from->ids + begin, (size_t)n_ids * sizeof *c->ids);
    for (int64_t i = 1; i <= n; i++)
        c->offsets[i] = from->offsets ? from->offsets[first + i] - begin : i * from->ids_per_sample;
    c->n_ids = (size_t)n_ids;
    if (!from->weights) return RK_OK;
    RK_TRY(reserve(&c->weights, (size_t)n_ids, &c->weights_capacity, sizeof *c->weights));
    memcpy(c->weights, from->weights + begin, (size_t)n_ids * sizeof *c->weights);
    b->features[feature].weights = c->weights;
    return RK_OK;
}

rk_status rk_retrieval_batch_add_id(rk_retrieval_batch *b, int32_t feature, int64_t id) {
    rk_retrieval_column *c = &b->columns[feature];
    RK_TRY(rk_grow(&c->ids, c->n_ids, &c->ids_capacity, sizeof *c->ids));
    c->ids[c->n_ids++] = id;
    return RK_OK;
}

void rk_retrieval_batch_end_sample(rk_retrieval_batch *b, int32_t feature, int64_t sample) {
    b->columns[feature].offsets[sample + 1] = (int64_t)b->columns[feature].n_ids;
}

rk_batch rk_retrieval_batch_done(rk_retrieval_batch *b) {
    for (int32_t f = 0; f < b->batch.n_features; f++) b->features[f].ids = b->columns[f].ids;
    return b->batch;
}
