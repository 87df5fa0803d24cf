#include "data/dataset/interactions.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "batch/ids.h"

typedef struct pair {
    int64_t user, item;
} pair;

/* Pairs of ids. */
typedef struct pair_list {
    pair *pairs; /* [n] */
    size_t n, capacity;
} pair_list;

/* How users, or items, are numbered. */
typedef struct numbering {
    bool has_keys;
    int64_t *keys; /* [n], of those */
    int64_t n;
} numbering;

rk_status rk_batch_single_id(const rk_batch *batch, const rk_data_schema *schema, int32_t feature, int64_t i,
                             int64_t *out) {
    const rk_ids *ids = &batch->features[feature];
    int64_t begin = rk_ids_begin_of_sample(ids, i), n = rk_ids_begin_of_sample(ids, i + 1) - begin;
    const rk_data_feature_info *info = &schema->features[feature];
    RK_FAIL_IF(n != 1, RK_BAD_DATA, "row %lld: feature '%s' has %lld ids; a pair has one user and one item",
               (long long)(batch->first_row + i), info->name, (long long)n);
    int64_t id = ids->ids[begin];
    RK_FAIL_IF(info->cardinality && (id < 0 || id >= info->cardinality), RK_BAD_DATA,
               "row %lld: feature '%s': there is no id %lld", (long long)(batch->first_row + i), info->name,
               (long long)id);
    *out = id;
    return RK_OK;
}

static rk_status append_pair(pair_list *list, pair p) {
    RK_TRY(rk_reserve_one_more(&list->pairs, list->n, &list->capacity, sizeof *list->pairs));
    list->pairs[list->n++] = p;
    return RK_OK;
}

static rk_status append_pairs_of_batch(const rk_batch *batch, const rk_data_schema *schema,
                                       rk_pair_features features, pair_list *list) {
    for (int64_t i = 0; i < batch->n; i++) {
        pair p;
        RK_TRY(rk_batch_single_id(batch, schema, features.user, i, &p.user));
        RK_TRY(rk_batch_single_id(batch, schema, features.item, i, &p.item));
        RK_TRY(append_pair(list, p));
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
static void fill_item_lists_of_users(rk_interactions *x, const pair *pairs, size_t n) {
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

static int compare_keys(const void *a, const void *b) {
    uint64_t x = rk_key_rank(*(const int64_t *)a), y = rk_key_rank(*(const int64_t *)b);
    return (x > y) - (x < y);
}

/* The place of a key; -1: it is not there. */
static int64_t find_key(const int64_t *keys, int64_t n, int64_t key) {
    int64_t first = 0, end = n;
    while (first < end) {
        int64_t middle = first + (end - first) / 2;
        if (rk_key_rank(keys[middle]) < rk_key_rank(key))
            first = middle + 1;
        else
            end = middle;
    }
    return first < n && keys[first] == key ? first : -1;
}

static int64_t *id_of_pair(pair *p, bool of_user) {
    return of_user ? &p->user : &p->item;
}

/* Each key of the pairs once. */
static rk_status list_keys(const pair_list *list, bool of_user, numbering *out) {
    RK_TRY(rk_alloc(list->n, sizeof *out->keys, &out->keys));
    for (size_t i = 0; i < list->n; i++) out->keys[i] = *id_of_pair(&list->pairs[i], of_user);
    if (list->n) qsort(out->keys, list->n, sizeof *out->keys, compare_keys);
    out->n = 0;
    for (size_t i = 0; i < list->n; i++)
        if (i == 0 || out->keys[i] != out->keys[i - 1]) out->keys[out->n++] = out->keys[i];
    return RK_OK;
}

static rk_status copy_keys(const int64_t *keys, numbering *out) {
    RK_TRY(rk_alloc((size_t)out->n, sizeof *keys, &out->keys));
    if (out->n) memcpy(out->keys, keys, (size_t)out->n * sizeof *keys);
    return RK_OK;
}

/* Numbers in the place of keys. */
static void number_pairs(pair_list *list, bool of_user, const numbering *by) {
    for (size_t i = 0; by->has_keys && i < list->n; i++) {
        int64_t *id = id_of_pair(&list->pairs[i], of_user);
        *id = find_key(by->keys, by->n, *id);
    }
}

static rk_status sort_pairs(rk_interactions *x, pair_list *list) {
    RK_AUTOFREE pair *scratch = NULL;
    RK_AUTOFREE int64_t *begins = NULL;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(list->n, scratch),
                        RK_ARRAY((size_t)(x->n_users > x->n_items ? x->n_users : x->n_items) + 1, begins),
                        RK_ARRAY((size_t)x->n_users + 1, x->offsets), RK_ARRAY(list->n, x->items),
                        RK_ARRAY((size_t)x->n_items, x->counts)));
    counting_sort_pairs(list->pairs, scratch, list->n, false, x->n_items, begins);
    memset(begins, 0, ((size_t)x->n_users + 1) * sizeof *begins);
    counting_sort_pairs(scratch, list->pairs, list->n, true, x->n_users, begins);
    fill_item_lists_of_users(x, list->pairs, list->n);
    return RK_OK;
}

/* Takes `list` apart, and keys of the numberings, which has none to list: those of the pairs are. */
static rk_status build_interactions(pair_list *list, numbering *users, numbering *items,
                                    rk_interactions **out) {
    RK_AUTO(rk_interactions_auto_unref) rk_interactions *x = NULL;
    rk_status status;
    RK_GOTO(rk_alloc(1, sizeof *x, &x));
    atomic_init(&x->n_refs, 1);
    if (users->has_keys && !users->keys) RK_GOTO(list_keys(list, true, users));
    if (items->has_keys && !items->keys) RK_GOTO(list_keys(list, false, items));
    number_pairs(list, true, users);
    number_pairs(list, false, items);
    x->n_users = users->n;
    x->n_items = items->n;
    RK_GOTO(sort_pairs(x, list));
    x->user_keys = users->keys;
    x->item_keys = items->keys;
    *out = x;
    x = NULL;
    return RK_OK;
done:
    RK_FREE_ALL(users->keys, items->keys);
    return status;
}

rk_status rk_interactions_collect(rk_dataset *dataset, rk_pair_features features, rk_interactions **out) {
    const rk_data_schema *schema = rk_dataset_schema(dataset);
    pair_list list = {0};
    const rk_batch *batch;
    rk_status status = rk_dataset_seek(dataset, (rk_dataset_position){0, 0});
    while (status == RK_OK && (status = rk_dataset_next(dataset, &batch)) == RK_OK)
        status = append_pairs_of_batch(batch, schema, features, &list);
    if (status == RK_END) {
        int64_t n_users = schema->features[features.user].cardinality,
                n_items = schema->features[features.item].cardinality;
        numbering users = {.has_keys = !n_users, .n = n_users}, items = {.has_keys = !n_items, .n = n_items};
        status = build_interactions(&list, &users, &items, out);
    }
    rk_free(list.pairs);
    return status;
}

static rk_status append_all_pairs(const rk_interactions *x, pair_list *list) {
    for (int64_t u = 0; u < x->n_users; u++)
        for (int64_t i = x->offsets[u]; i < x->offsets[u + 1]; i++)
            RK_TRY(append_pair(
                list, (pair){rk_interactions_user_id(x, u), rk_interactions_item_id(x, x->items[i])}));
    return RK_OK;
}

rk_status rk_interactions_merge(const rk_interactions *a, const rk_interactions *b, rk_interactions **out) {
    pair_list list = {0};
    numbering users = {.has_keys = a->user_keys, .n = a->n_users},
              items = {.has_keys = a->item_keys, .n = a->n_items};
    rk_status status = append_all_pairs(a, &list);
    if (status == RK_OK) status = append_all_pairs(b, &list);
    if (status == RK_OK) status = build_interactions(&list, &users, &items, out);
    rk_free(list.pairs);
    return status;
}

rk_status rk_interactions_renumber(const rk_interactions *x, const rk_interactions *all,
                                   rk_interactions **out) {
    pair_list list = {0};
    numbering users = {.has_keys = all->user_keys, .n = all->n_users},
              items = {.has_keys = all->item_keys, .n = all->n_items};
    rk_status status = append_all_pairs(x, &list);
    if (status == RK_OK && users.has_keys) status = copy_keys(all->user_keys, &users);
    if (status == RK_OK && items.has_keys) status = copy_keys(all->item_keys, &items);
    if (status == RK_OK)
        status = build_interactions(&list, &users, &items, out);
    else
        RK_FREE_ALL(users.keys, items.keys);
    rk_free(list.pairs);
    return status;
}

int64_t rk_interactions_user(const rk_interactions *x, int64_t id) {
    return x->user_keys ? find_key(x->user_keys, x->n_users, id) : id;
}

int64_t rk_interactions_item(const rk_interactions *x, int64_t id) {
    return x->item_keys ? find_key(x->item_keys, x->n_items, id) : id;
}

uint64_t rk_interactions_bytes(const rk_interactions *x) {
    int64_t n =
        x->offsets[x->n_users] + x->n_users * (x->user_keys ? 2 : 1) + x->n_items * (x->item_keys ? 2 : 1);
    return (uint64_t)n * sizeof(int64_t);
}

rk_interactions *rk_interactions_ref(rk_interactions *x) {
    if (x) atomic_fetch_add(&x->n_refs, 1);
    return x;
}

void rk_interactions_unref(rk_interactions *x) {
    if (!x || atomic_fetch_sub(&x->n_refs, 1) > 1) return;
    RK_FREE_ALL(x->user_keys, x->item_keys, x->offsets, x->items, x->counts, x);
}
