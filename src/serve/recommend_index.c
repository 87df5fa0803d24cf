/* Recommendations by an index, and how many of the best it finds. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/integers.h"
#include "index/id_set.h"
#include "serve/recommend_internal.h"

enum { SAMPLED_VECTORS = 64, SAMPLED_USERS = 1000 };

/* Some of the index's vectors are those of the model; their last digits depend on how many are computed at
 * once. */
static rk_status check_index_matches_model(const char *path, rk_model *model, const rk_item_choice *items,
                                           const rk_index *x, float *vector) {
    const double tolerance = 1e-4;
    for (int64_t i = 0; i < SAMPLED_VECTORS && i < x->base.n; i++) {
        int64_t position = i * x->base.n / SAMPLED_VECTORS, id;
        if (x->base.n < SAMPLED_VECTORS) position = i;
        id = rk_index_id(x, position);
        RK_FAIL_IF(!items->has_keys && (id < 0 || id >= items->n_ids), RK_INVALID_ARGUMENT,
                   "'%s' has an item %lld, and the model has %lld", path, (long long)id,
                   (long long)items->n_ids);
        int64_t place = rk_item_choice_place_of_index(items, id), of_model = id;
        if (items->has_keys && place < 0) continue; /* which key it is, only those that are chosen say */
        if (items->has_keys) of_model = items->keys[place];
        RK_TRY(rk_model_item_vectors(model, &of_model, 1, vector));
        const rk_loose_f32 *own = rk_index_vector(x, position);
        double apart = 0, square = 0;
        for (int32_t d = 0; d < x->dim; d++) {
            apart += pow((double)own[d] - (double)vector[d], 2);
            square += pow((double)vector[d], 2);
        }
        RK_FAIL_IF(sqrt(apart) > tolerance * (sqrt(square) + tolerance), RK_INVALID_ARGUMENT,
                   "'%s' is an index of another model: item %lld has another vector there\nhint: make it "
                   "anew with 'reckon index'",
                   path, (long long)id);
    }
    return RK_OK;
}

rk_status rk_index_ranking_open(const char *path, rk_model *model, const rk_item_choice *items,
                                rk_index_ranking *out) {
    RK_AUTOFREE float *vector = NULL;
    RK_TRY(rk_item_choice_check_index(items));
    RK_TRY(rk_index_open(path, NULL, &out->index));
    int64_t dim = rk_model_vector_dim(model);
    RK_FAIL_IF(out->index->dim != dim, RK_INVALID_ARGUMENT,
               "'%s' has vectors of %d numbers, but the model's have %lld", path, out->index->dim,
               (long long)dim);
    RK_TRY(rk_alloc((size_t)dim, sizeof *vector, &vector));
    return check_index_matches_model(path, model, items, out->index, vector);
}

void rk_index_ranking_release(rk_index_ranking *r) {
    rk_index_free(r->index);
    RK_FREE_ALL(r->best, r->best_scores);
    *r = (rk_index_ranking){0};
}

/* The same search of all lists, for the first users. */
static rk_status measure_recall(rk_index_ranking *r, const rk_index_search_call *call) {
    int64_t n = SAMPLED_USERS - r->n_measured < call->n ? SAMPLED_USERS - r->n_measured : call->n;
    size_t n_best = (size_t)(n * call->k);
    rk_index_search_options all = *call->options;
    rk_index_search_call whole = *call;
    if (n == 0) return RK_OK;
    RK_TRY(rk_reserve(&r->best, &r->best_capacity, n_best, sizeof *r->best));
    RK_TRY(rk_reserve(&r->best_scores, &r->best_scores_capacity, n_best, sizeof *r->best_scores));
    all.n_probe = r->index->base.n_lists;
    whole.options = &all;
    whole.n = n;
    whole.ids = r->best;
    whole.scores = r->best_scores;
    RK_TRY(rk_index_search_all_queries(&whole));
    for (int64_t q = 0; q < n; q++) {
        rk_id_set found;
        RK_TRY(rk_id_set_create(call->ids + q * call->k, call->k, &found));
        for (int64_t i = q * call->k; i < (q + 1) * call->k && r->best[i] >= 0; i++, r->n_best++)
            r->n_found += rk_sorted_contains(found.ids, found.n, r->best[i]);
        rk_id_set_release(&found);
    }
    r->n_measured += n;
    return RK_OK;
}

rk_status rk_index_ranking_search_vectors(const rk_index_ranking *r, const rk_index_search_call *call) {
    RK_TRY(rk_index_check_vectors(call->queries, call->n, r->index->dim, "the vector of user"));
    return rk_index_search_all_queries(call);
}

rk_status rk_index_ranking_search(rk_index_ranking *r, const rk_item_choice *items, const rk_ids *excluded,
                                  const float *vectors, int64_t n, int32_t k, int64_t *places,
                                  float *scores) {
    rk_index_search_options o = RK_INDEX_SEARCH_OPTIONS_INIT;
    o.ids = items->ids;
    o.n_ids = items->n;
    o.excluded = excluded;
    const rk_index_search_call call = {.index = r->index,
                                       .options = &o,
                                       .queries = vectors,
                                       .n = n,
                                       .k = k,
                                       .ids = places,
                                       .scores = scores};
    RK_TRY(rk_index_ranking_search_vectors(r, &call));
    RK_TRY(measure_recall(r, &call));
    for (int64_t i = 0; i < n * k; i++) {
        scores[i] = places[i] < 0 ? 0 : scores[i];
        places[i] = places[i] < 0 ? -1 : rk_item_choice_place_of_index(items, places[i]);
    }
    return RK_OK;
}

double rk_index_ranking_recall(const rk_index_ranking *r) {
    return r->n_best ? (double)r->n_found / (double)r->n_best : 1;
}
