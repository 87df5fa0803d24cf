/* Retrieval by a session: vectors of a two_tower's users and items, and the best items of an index for a
 * user. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/text/find_text.h"
#include "batch/ids.h"
#include "metrics/metrics.h"
#include "model/retrieval/item_scores.h"
#include "serve/session_internal.h"

struct rk_item_index {
    rk_packed_matrix *vectors; /* [dim, n_items] */
    int64_t n_items;
    int32_t dim;
};

int32_t rk_session_vector_dim(const rk_session *s) {
    return rk_model_vector_dim(s->predictor->model);
}

static rk_status check_two_tower(const rk_session *s) {
    RK_FAIL_IF(rk_session_vector_dim(s) == 0, RK_INVALID_ARGUMENT, "only model 'two_tower' retrieves items");
    return RK_OK;
}

/* The item's feature; NULL: the model is no two_tower. */
static const rk_data_feature *find_item_feature(const rk_session *s) {
    const rk_config *c = s->predictor->config;
    if (!rk_session_vector_dim(s)) return NULL;
    return RK_FIND_BY(name, c->model.retrieval.item, c->data.features, c->data.n_features);
}

int64_t rk_session_n_items(const rk_session *s) {
    const rk_data_feature *item = find_item_feature(s);
    const rk_data_schema *schema = rk_transforms_schema(rk_session_transforms(s));
    const rk_data_feature_info *info =
        item ? RK_FIND_BY(name, item->name, schema->features, schema->n_features) : NULL;
    return info ? info->cardinality : 0;
}

rk_status rk_session_item_vectors(rk_session *s, int64_t first, int64_t n, float *vectors) {
    RK_AUTOFREE int64_t *ids = NULL;
    RK_TRY(check_two_tower(s));
    int64_t n_items = rk_session_n_items(s);
    RK_FAIL_IF(n_items == 0, RK_UNSUPPORTED,
               "the item's feature '%s' has keys, which have no numbers\nhint: rk_item_catalog_create finds "
               "the items that have rows",
               find_item_feature(s)->name);
    RK_FAIL_IF(first < 0 || n < 0 || n > n_items || first > n_items - n, RK_INVALID_ARGUMENT,
               "items %lld to %lld are not among the %lld items", (long long)first,
               (long long)(first + n - 1), (long long)n_items);
    RK_TRY(rk_alloc((size_t)n, sizeof *ids, &ids));
    for (int64_t i = 0; i < n; i++) ids[i] = first + i;
    rk_threads_before before = rk_session_begin_call(s);
    return rk_session_end_call(before, rk_inference_item_vectors(s->inference, ids, n, &s->cancel, vectors));
}

static rk_status transform_users(rk_session *s, const struct ArrowSchema *schema,
                                 const struct ArrowArray *columns, const rk_batch **out) {
    RK_TRY(check_two_tower(s));
    const rk_data_feature *item = find_item_feature(s);
    const rk_arrow_rows rows = {schema, columns, rk_feature_column(item)};
    return rk_transforms_apply_with_context(rk_session_transforms(s), NULL, &rows, s->workspace, out);
}

static rk_status compute_user_vectors(rk_session *s, const struct ArrowSchema *schema,
                                      const struct ArrowArray *columns, float *vectors) {
    const rk_batch *batch;
    RK_TRY(transform_users(s, schema, columns, &batch));
    return rk_inference_user_vectors(s->inference, batch, &s->cancel, vectors);
}

rk_status rk_session_user_vectors(rk_session *s, const struct ArrowSchema *schema,
                                  const struct ArrowArray *columns, float *vectors) {
    rk_threads_before before = rk_session_begin_call(s);
    return rk_session_end_call(before, compute_user_vectors(s, schema, columns, vectors));
}

typedef struct item_vectors {
    const float *vectors; /* [n_items, dim] */
    int32_t dim;
} item_vectors;

static rk_status copy_item_vectors(void *context, int64_t first, int64_t n, rk_real *rows) {
    const item_vectors *from = context;
    memcpy(rows, from->vectors + first * from->dim, (size_t)(n * from->dim) * sizeof *rows);
    return RK_OK;
}

rk_status rk_item_index_create(const float *vectors, int64_t n_items, int32_t dim, rk_item_index **out) {
    item_vectors from = {vectors, dim};
    rk_item_index *index;
    RK_FAIL_IF(
        n_items < 1 || n_items > UINT32_MAX || dim < 1, RK_INVALID_ARGUMENT,
        "an index of %lld vectors of %d numbers: it needs 1 or more of each, and fewer than 2^32 vectors",
        (long long)n_items, dim);
    RK_TRY(rk_alloc(1, sizeof *index, &index));
    *index = (rk_item_index){.n_items = n_items, .dim = dim};
    rk_status status = rk_item_matrix_create(n_items, dim, copy_item_vectors, &from, &index->vectors);
    if (status == RK_OK)
        *out = index;
    else
        rk_item_index_free(index);
    return status;
}

void rk_item_index_free(rk_item_index *index) {
    if (!index) return;
    rk_packed_matrix_free(index->vectors);
    rk_free(index);
}

/* The best of those items alone that are wanted, which ascend as `only` and `excluded` do. */
static rk_status rank_allowed_items(rk_session *s, const rk_exact_search *q, const float *scores,
                                    const int64_t *excluded, int64_t n_excluded, int64_t *best, int64_t *n) {
    int64_t n_kept = 0, x = 0;
    RK_TRY(rk_reserve(&s->kept, &s->kept_capacity, (size_t)q->n_only, sizeof *s->kept));
    RK_TRY(rk_reserve(&s->kept_scores, &s->kept_scores_capacity, (size_t)q->n_only, sizeof *s->kept_scores));
    for (int64_t i = 0; i < q->n_only; i++) {
        while (x < n_excluded && excluded[x] < q->only[i]) x++;
        if (x < n_excluded && excluded[x] == q->only[i]) continue;
        s->kept_scores[n_kept] = scores[q->only[i]];
        s->kept[n_kept++] = q->only[i];
    }
    RK_TRY(rk_rank_top_k(s->kept_scores, n_kept, NULL, 0, q->k, best, n));
    for (int64_t i = 0; i < *n; i++) best[i] = s->kept[best[i]];
    return RK_OK;
}

static rk_status rank_items_of_user(rk_session *s, const rk_exact_search *q, int64_t user,
                                    const float *scores, int64_t *best) {
    int64_t first = q->excluded ? rk_ids_begin_of_sample(q->excluded, user) : 0,
            end = q->excluded ? rk_ids_begin_of_sample(q->excluded, user + 1) : 0, n;
    const int64_t *excluded = end > first ? q->excluded->ids + first : NULL;
    rk_found_item *found = s->found + user * q->k;
    RK_FAIL_IF(atomic_load(&s->cancel), RK_INTERRUPTED, "the search was cancelled");
    rk_status status = q->only
                           ? rank_allowed_items(s, q, scores, excluded, end - first, best, &n)
                           : rk_rank_top_k(scores, q->index->n_items, excluded, end - first, q->k, best, &n);
    if (status != RK_OK) return rk_error_context(status, "row %lld", (long long)user);
    for (int32_t i = 0; i < q->k; i++)
        found[i] = i < n ? (rk_found_item){best[i], scores[best[i]]} : (rk_found_item){-1, -INFINITY};
    return RK_OK;
}

static rk_status reserve_search_memory(rk_session *s, const rk_item_index *x, int64_t n, int32_t k) {
    int64_t at_once = n < RK_USERS_AT_ONCE ? n : (int64_t)RK_USERS_AT_ONCE;
    RK_TRY(rk_reserve(&s->scores, &s->scores_capacity, (size_t)(at_once * x->n_items), sizeof *s->scores));
    RK_TRY(rk_reserve(&s->found, &s->found_capacity, (size_t)(n * k), sizeof *s->found));
    return rk_reserve(&s->product_memory, &s->product_capacity, rk_packed_matrix_workspace_bytes(x->vectors),
                      1);
}

rk_status rk_session_search_exact(rk_session *s, const rk_exact_search *q, int64_t n) {
    const rk_item_index *x = q->index;
    RK_AUTOFREE int64_t *best = NULL;
    RK_TRY(reserve_search_memory(s, x, n, q->k));
    RK_TRY(rk_alloc((size_t)q->k, sizeof *best, &best));
    for (int64_t first = 0; first < n; first += RK_USERS_AT_ONCE) {
        int64_t some = n - first < RK_USERS_AT_ONCE ? n - first : (int64_t)RK_USERS_AT_ONCE;
        RK_TRY(rk_packed_matrix_forward(x->vectors, some, s->users + first * x->dim, NULL, false, s->scores,
                                        s->product_memory));
        for (int64_t i = 0; i < some; i++)
            RK_TRY(rank_items_of_user(s, q, first + i, s->scores + i * x->n_items, best));
    }
    return RK_OK;
}

rk_status rk_session_check_search(const rk_session *s, int32_t dim, int64_t n_items, int32_t k) {
    RK_TRY(check_two_tower(s));
    RK_FAIL_IF(dim != rk_session_vector_dim(s), RK_INVALID_ARGUMENT,
               "the index has vectors of %d numbers, but the model's have %d", dim, rk_session_vector_dim(s));
    RK_FAIL_IF(k < 1 || k > n_items, RK_INVALID_ARGUMENT,
               "k must be 1 to %lld, the items of the index, not %d", (long long)n_items, k);
    return RK_OK;
}

rk_status rk_session_compute_user_vectors(rk_session *s, const struct ArrowSchema *schema,
                                          const struct ArrowArray *columns, int64_t *n) {
    const rk_batch *batch;
    RK_TRY(transform_users(s, schema, columns, &batch));
    RK_TRY(rk_reserve(&s->users, &s->users_capacity, (size_t)(batch->n * rk_session_vector_dim(s)),
                      sizeof *s->users));
    RK_TRY(rk_inference_user_vectors(s->inference, batch, &s->cancel, s->users));
    *n = batch->n;
    return RK_OK;
}

void rk_session_copy_results(const rk_session *s, int64_t n, int64_t *items, float *scores) {
    for (int64_t i = 0; i < n; i++) {
        items[i] = s->found[i].item;
        if (scores) scores[i] = s->found[i].score;
    }
}

static rk_status search_items_of_users(rk_session *s, const rk_exact_search *q,
                                       const struct ArrowSchema *schema, const struct ArrowArray *columns) {
    int64_t n;
    RK_TRY(rk_session_check_search(s, q->index->dim, q->index->n_items, q->k));
    RK_TRY(rk_session_compute_user_vectors(s, schema, columns, &n));
    return rk_session_search_exact(s, q, n);
}

rk_status rk_session_retrieve(rk_session *s, const struct ArrowSchema *schema,
                              const struct ArrowArray *columns, const rk_item_index *index, int32_t k,
                              const rk_ids *excluded, int64_t *items, float *scores) {
    const rk_exact_search q = {.index = index, .excluded = excluded, .k = k};
    rk_threads_before before = rk_session_begin_call(s);
    RK_TRY(rk_session_end_call(before, search_items_of_users(s, &q, schema, columns)));
    rk_session_copy_results(s, columns->length * k, items, scores);
    return RK_OK;
}
