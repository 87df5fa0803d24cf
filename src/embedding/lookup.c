#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "embedding/collection_parts.h"

typedef struct lookup {
    rk_embeddings *embeddings;
    rk_feature_use *uses;
    const rk_ids *ids;
    const rk_activation *activations;
    int64_t n;
    size_t blocks;            /* of samples, a feature */
    _Atomic(size_t) n_failed; /* features that prepare refused */
} lookup;

static void prepare_feature(void *context, size_t task, int thread) {
    (void)thread;
    lookup *l = context;
    const rk_embeddings *e = l->embeddings;
    const rk_table *table = &e->tables[e->feature_tables[task]];
    if (rk_feature_use_prepare(&l->uses[task], &e->features[task], table, l->n, &l->ids[task]) != RK_OK) atomic_fetch_add(&l->n_failed, 1);
}

static void look_up_block(void *context, size_t task, int thread) {
    (void)thread;
    const lookup *l = context;
    size_t f = task / l->blocks;
    int64_t first = (int64_t)(task % l->blocks) * RK_SAMPLE_BLOCK, last = first + RK_SAMPLE_BLOCK < l->n ? first + RK_SAMPLE_BLOCK : l->n;
    const rk_feature_use *use = &l->uses[f];
    const rk_activation *to = &l->activations[f];
    rk_bag_forward_args args = {.rows = l->embeddings->tables[l->embeddings->feature_tables[f]].rows,
                                .offsets = use->offsets,
                                .ids = use->ids,
                                .coefficients = use->coefficients,
                                .scales = use->scales,
                                .out = to->data,
                                .stride = to->stride,
                                .first = first,
                                .last = last};
    int32_t length = l->embeddings->features[f].max_sequence_length;
    if (!length) {
        rk_bag_forward(&args);
        return;
    }
    for (int64_t s = first; s < last; s++) { /* a sample's positions stand dim apart, samples `stride` apart */
        args.first = s * length;
        args.last = args.first + length;
        args.stride = args.rows.dim;
        args.out = to->data + s * (to->stride - (int64_t)length * args.rows.dim);
        rk_bag_forward(&args);
        if (to->lengths) to->lengths[s] = use->lengths[s];
    }
}

static rk_status look_up(rk_embeddings *e, rk_feature_use *uses, int64_t n, const rk_ids *ids, const rk_activation *activations) {
    RK_FAIL_IF(n < 0 || (n > 0 && e->n_features > 0 && (!ids || !activations)), RK_INVALID_ARGUMENT, "a lookup needs samples, ids and activations");
    for (int32_t f = 0; f < e->n_features && n > 0; f++) {
        RK_FAIL_IF(!activations[f].data || activations[f].stride < rk_embeddings_width(e, f), RK_INVALID_ARGUMENT,
                   "feature '%s': its activations need memory and a stride of at least %d", e->features[f].name, rk_embeddings_width(e, f));
        RK_FAIL_IF(!ids[f].ids && (ids[f].offsets ? ids[f].offsets[n] : ids[f].ids_per_sample) > 0, RK_INVALID_ARGUMENT, "feature '%s' has no ids", e->features[f].name);
    }
    lookup l = {.embeddings = e, .uses = uses, .ids = ids, .activations = activations, .n = n, .blocks = rk_blocks((size_t)n, RK_SAMPLE_BLOCK)};
    rk_parallel_for((size_t)e->n_features, prepare_feature, &l);
    if (atomic_load(&l.n_failed)) /* the message belongs to the thread that found it: find it again here, first feature first */
        for (int32_t f = 0; f < e->n_features; f++)
            RK_TRY(rk_feature_use_prepare(&uses[f], &e->features[f], &e->tables[e->feature_tables[f]], n, &ids[f]));
    rk_parallel_for(l.blocks * (size_t)e->n_features, look_up_block, &l);
    return RK_OK;
}

rk_status rk_embeddings_lookup(rk_embeddings *e, int64_t n, const rk_ids *ids, const rk_activation *activations) {
    e->has_lookup = false;
    RK_TRY(look_up(e, e->uses, n, ids, activations));
    e->has_lookup = true;
    return RK_OK;
}

rk_status rk_embeddings_peek(rk_embeddings *e, int64_t n, const rk_ids *ids, const rk_activation *activations) {
    return look_up(e, e->peeks, n, ids, activations);
}
