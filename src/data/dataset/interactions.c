#include "data/dataset/interactions.h"

#include <string.h>

#include "base/memory.h"
#include "batch/ids.h"

typedef struct pair {
    int64_t user, item;
} pair;

typedef struct pair_list {
    pair *pairs; /* [n] */
    size_t n, capacity;
} pair_list;

rk_status rk_batch_single_id(const rk_batch *batch, const rk_data_schema *schema, int32_t feature, int64_t i,
                             int64_t *out) {
    const rk_ids *ids = &batch->features[feature];
    int64_t begin = rk_ids_begin(ids, i), n = rk_ids_begin(ids, i + 1) - begin;
    const rk_data_feature_info *info = &schema->features[feature];
    RK_FAIL_IF(n != 1, RK_BAD_DATA, "row %lld: feature '%s' has %lld ids; a pair has one user and one item",
               (long long)(batch->first_row + i), info->name, (long long)n);
    int64_t id = ids->ids[begin];
    RK_FAIL_IF(id < 0 || id >= info->cardinality, RK_BAD_DATA, "row %lld: feature '%s': there is no id %lld",
               (long long)(batch->first_row + i), info->name, (long long)id);
    *out = id;
    return RK_OK;
}

static rk_status add_pair(pair_list *list, pair p) {
    RK_TRY(rk_grow(&list->pairs, list->n, &list->capacity, sizeof *list->pairs));
    list->pairs[list->n++] = p;
    return RK_OK;
}

static rk_status add_pairs_of_batch(const rk_batch *batch, const rk_data_schema *schema,
                                    rk_pair_features features, pair_list *list) {
    for (int64_t i = 0; i < batch->n; i++) {
        pair p;
        RK_TRY(rk_batch_single_id(batch, schema, features.user, i, &p.user));
        RK_TRY(rk_batch_single_id(batch, schema, features.item, i, &p.item));
        RK_TRY(add_pair(list, p));
    }
    return RK_OK;
}

/* A stable counting sort of the pairs by their user, or by their item. begins: [n_keys + 1] zeros; afterwards
 * where each key's pairs end. */
static void counting_sort_pairs(const pair *from, pair *to, size_t n, bool by_user, int64_t n_keys,
                                int64_t *begins) {
    for (size_t i = 0; i < n; i++) begins[(by_user ? from[i].user : from[i].item) + 1]++;
    for (int64_t k = 0; k < n_keys; k++) begins[k + 1] += begins[k];
    for (size_t i = 0; i < n; i++) to[begins[by_user ? from[i].user : from[i].item]++] = from[i];
}

/* Sorted pairs without repetitions to lists by user. */
static void fill_user_lists(rk_interactions *x, const pair *pairs, size_t n) {
    int64_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (i && pairs[i].user == pairs[i - 1].user && pairs[i].item == pairs[i - 1].item) continue;
        x->items[kept++] = pairs[i].item;
        x->offsets[pairs[i].user + 1] = kept;
        x->counts[pairs[i].item]++;
    }
    for (int64_t u = 0; u < x->n_users; u++)
        if (x->offsets[u + 1] < x->offsets[u]) x->offsets[u + 1] = x->offsets[u]; /* no pairs */
}

/* `list` is taken apart. */
static rk_status build_interactions(pair_list *list, int64_t n_users, int64_t n_items,
                                    rk_interactions **out) {
    RK_AUTO(rk_interactions_auto_unref) rk_interactions *x = NULL;
    RK_AUTOFREE pair *scratch = NULL;
    RK_AUTOFREE int64_t *begins = NULL;
    RK_TRY(rk_alloc(1, sizeof *x, &x));
    atomic_init(&x->n_refs, 1);
    x->n_users = n_users;
    x->n_items = n_items;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(list->n, scratch),
                        RK_ARRAY((size_t)(n_users > n_items ? n_users : n_items) + 1, begins),
                        RK_ARRAY((size_t)n_users + 1, x->offsets), RK_ARRAY(list->n, x->items),
                        RK_ARRAY((size_t)n_items, x->counts)));
    counting_sort_pairs(list->pairs, scratch, list->n, false, n_items, begins);
    memset(begins, 0, ((size_t)n_users + 1) * sizeof *begins);
    counting_sort_pairs(scratch, list->pairs, list->n, true, n_users, begins);
    fill_user_lists(x, list->pairs, list->n);
    *out = x;
    x = NULL;
    return RK_OK;
}

rk_status rk_interactions_collect(rk_dataset *dataset, rk_pair_features features, rk_interactions **out) {
    const rk_data_schema *schema = rk_dataset_schema(dataset);
    pair_list list = {0};
    const rk_batch *batch;
    rk_status status = rk_dataset_seek(dataset, (rk_dataset_position){0, 0});
    while (status == RK_OK && (status = rk_dataset_next(dataset, &batch)) == RK_OK)
        status = add_pairs_of_batch(batch, schema, features, &list);
    if (status == RK_END)
        status = build_interactions(&list, schema->features[features.user].cardinality,
                                    schema->features[features.item].cardinality, out);
    rk_free(list.pairs);
    return status;
}

static rk_status add_all_pairs(const rk_interactions *x, pair_list *list) {
    for (int64_t u = 0; u < x->n_users; u++)
        for (int64_t i = x->offsets[u]; i < x->offsets[u + 1]; i++)
            RK_TRY(add_pair(list, (pair){u, x->items[i]}));
    return RK_OK;
}

rk_status rk_interactions_merge(const rk_interactions *a, const rk_interactions *b, rk_interactions **out) {
    pair_list list = {0};
    rk_status status = add_all_pairs(a, &list);
    if (status == RK_OK) status = add_all_pairs(b, &list);
    if (status == RK_OK) status = build_interactions(&list, a->n_users, a->n_items, out);
    rk_free(list.pairs);
    return status;
}

rk_interactions *rk_interactions_ref(rk_interactions *x) {
    if (x) atomic_fetch_add(&x->n_refs, 1);
    return x;
}

void rk_interactions_unref(rk_interactions *x) {
    if (!x || atomic_fetch_sub(&x->n_refs, 1) > 1) return;
    RK_FREE_ALL(x->offsets, x->items, x->counts, x);
}
