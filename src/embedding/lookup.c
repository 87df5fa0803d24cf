/* From ids to activations: check everything, then gather and combine. */
#include <pthread.h>

#include "base/parallel.h"
#include "embedding/collection_parts.h"
#include "embedding/cut.h"

enum {
    SCAN_IDS = 65536,      /* ids that a task looks at */
    LOOKUP_VALUES = 16384, /* values that a task reads and writes, about */
    MAX_MESSAGE = 1024
};

typedef struct lookup {
    rk_embeddings *embeddings;
    rk_feature_use *uses;
    const rk_ids *ids;
    const rk_activation *activations;
    int64_t n;
    /* the failure of the first feature that was refused, carried from the thread that found it */
    pthread_mutex_t mutex;
    rk_status status;
    size_t failed;
    char message[MAX_MESSAGE];
} lookup;

static void keep_failure(lookup *l, size_t f, rk_status status) {
    if (status == RK_OK) return;
    pthread_mutex_lock(&l->mutex);
    if (l->status == RK_OK || f < l->failed) {
        l->status = status;
        l->failed = f;
        rk_error_copy(l->message, sizeof l->message);
    }
    pthread_mutex_unlock(&l->mutex);
}

static const rk_table *table_of(const rk_embeddings *e, size_t feature) {
    return &e->tables[e->feature_tables[feature]];
}

static void begin_feature(void *context, size_t f, int thread) {
    (void)thread;
    lookup *l = context;
    keep_failure(l, f, rk_feature_use_begin(&l->uses[f], &l->embeddings->features[f], l->n, &l->ids[f]));
}

static void scan_block(void *context, size_t task, int thread) {
    (void)thread;
    const lookup *l = context;
    const size_t *begins = l->embeddings->task_begins;
    size_t f = rk_cut_item(begins, (size_t)l->embeddings->n_features, task);
    rk_feature_use *use = &l->uses[f];
    int64_t first = (int64_t)(task - begins[f]) * SCAN_IDS, last = first + SCAN_IDS < use->n_ids ? first + SCAN_IDS : use->n_ids;
    rk_feature_use_scan(use, table_of(l->embeddings, f), first, last);
}

static void prepare_feature(void *context, size_t f, int thread) {
    (void)thread;
    lookup *l = context;
    const rk_embeddings *e = l->embeddings;
    keep_failure(l, f, rk_feature_use_prepare(&l->uses[f], &e->features[f], table_of(e, f), &l->ids[f]));
}

static rk_status prepare(lookup *l) {
    rk_embeddings *e = l->embeddings;
    size_t n_features = (size_t)e->n_features;
    rk_parallel_for(n_features, begin_feature, l);
    if (l->status != RK_OK) return rk_error(l->status, "%s", l->message);
    for (size_t f = 0; f < n_features; f++) e->task_begins[f + 1] = e->task_begins[f] + rk_blocks((size_t)l->uses[f].n_ids, SCAN_IDS);
    rk_parallel_for(e->task_begins[n_features], scan_block, l);
    rk_parallel_for(n_features, prepare_feature, l);
    return l->status != RK_OK ? rk_error(l->status, "%s", l->message) : RK_OK;
}

static rk_status check_counts(const rk_embeddings *e, int64_t n, const rk_ids *ids) {
    RK_FAIL_IF(n < 0, RK_INVALID_ARGUMENT, "a lookup of %lld samples", (long long)n);
    RK_FAIL_IF(e->n_features > 0 && !ids, RK_INVALID_ARGUMENT, "a lookup needs ids");
    return RK_OK;
}

static rk_status route(rk_embeddings *e, rk_feature_use *uses, int64_t n, const rk_ids *ids) {
    RK_TRY(check_counts(e, n, ids));
    lookup l = {.embeddings = e, .uses = uses, .ids = ids, .n = n, .mutex = PTHREAD_MUTEX_INITIALIZER};
    return prepare(&l);
}

rk_status rk_embeddings_route(rk_embeddings *e, int64_t n, const rk_ids *ids, bool training) {
    if (training) e->has_lookup = false;
    RK_TRY(route(e, training ? e->uses : e->peeks, n, ids));
    if (training) e->has_lookup = true;
    return RK_OK;
}

/* Samples first .. last-1 of feature f; `to` is of sample `first`. */
static void look_up(const rk_embeddings *e, const rk_feature_use *use, int32_t f, int64_t first, int64_t last, rk_activation to) {
    rk_bag_forward_args args = {.rows = table_of(e, (size_t)f)->rows,
                                .offsets = use->offsets,
                                .ids = use->ids,
                                .coefficients = use->coefficients,
                                .scales = use->scales,
                                .out = to.data,
                                .stride = to.stride,
                                .first = first,
                                .last = last};
    int64_t length = e->features[f].max_sequence_length;
    if (!length) {
        rk_bag_forward(&args);
        return;
    }
    args.stride = args.rows.dim; /* a sample's positions stand dim apart, samples to.stride */
    for (int64_t s = first; s < last; s++) {
        args.first = s * length;
        args.last = args.first + length;
        args.out = to.data + (s - first) * to.stride;
        rk_bag_forward(&args);
        if (to.lengths) to.lengths[s - first] = use->lengths[s];
    }
}

void rk_embeddings_look_up(const rk_embeddings *e, bool training, int32_t f, int64_t first, int64_t last, const rk_activation *to) {
    look_up(e, &(training ? e->uses : e->peeks)[f], f, first, last, *to);
}

static void look_up_part(void *context, size_t task, int thread) {
    (void)thread;
    const lookup *l = context;
    const rk_embeddings *e = l->embeddings;
    size_t f = rk_cut_item(e->task_begins, (size_t)e->n_features, task);
    size_t n_parts = e->task_begins[f + 1] - e->task_begins[f], part = task - e->task_begins[f];
    int64_t first = rk_cut_at(l->n, part, n_parts);
    rk_activation to = l->activations[f];
    to.data += first * to.stride;
    if (to.lengths) to.lengths += first;
    look_up(e, &l->uses[f], (int32_t)f, first, rk_cut_at(l->n, part + 1, n_parts), to);
}

static rk_status look_up_all(rk_embeddings *e, rk_feature_use *uses, int64_t n, const rk_ids *ids, const rk_activation *activations) {
    RK_TRY(check_counts(e, n, ids));
    RK_FAIL_IF(e->n_features > 0 && !activations, RK_INVALID_ARGUMENT, "a lookup needs activations");
    for (int32_t f = 0; f < e->n_features && n > 0; f++)
        RK_FAIL_IF(!activations[f].data || activations[f].stride < rk_embeddings_width(e, f), RK_INVALID_ARGUMENT,
                   "feature '%s': its activations need memory and a stride of at least %d", e->features[f].name, rk_embeddings_width(e, f));
    RK_TRY(route(e, uses, n, ids));
    lookup l = {.embeddings = e, .uses = uses, .activations = activations, .n = n};
    for (int32_t f = 0; f < e->n_features; f++) {
        size_t values = (size_t)(uses[f].n_ids + uses[f].n_bags) * (size_t)table_of(e, (size_t)f)->config.dim;
        size_t n_parts = rk_blocks(values, LOOKUP_VALUES);
        e->task_begins[f + 1] = e->task_begins[f] + (n_parts < (size_t)n ? n_parts : (size_t)n);
    }
    rk_parallel_for(e->task_begins[e->n_features], look_up_part, &l);
    return RK_OK;
}

rk_status rk_embeddings_lookup(rk_embeddings *e, int64_t n, const rk_ids *ids, const rk_activation *activations) {
    e->has_lookup = false;
    RK_TRY(look_up_all(e, e->uses, n, ids, activations));
    e->has_lookup = true;
    return RK_OK;
}

rk_status rk_embeddings_peek(rk_embeddings *e, int64_t n, const rk_ids *ids, const rk_activation *activations) {
    return look_up_all(e, e->peeks, n, ids, activations);
}
