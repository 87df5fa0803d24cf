/* Pairs of a user and an item, kept by user: what a ranking leaves out, users' histories, items'
 * popularity. */
#ifndef RK_DATA_DATASET_INTERACTIONS_H
#define RK_DATA_DATASET_INTERACTIONS_H

#include <stdatomic.h>

#include "data/dataset/dataset.h"

/* Users and items are numbers from 0 on: the ids of their features, or, of a feature with keys, places in the
 * list of those keys that pairs have. */
typedef struct rk_interactions {
    atomic_long n_refs;
    int64_t n_users, n_items;
    int64_t *user_keys, *item_keys; /* [n_users], [n_items], in the order of rk_key_rank; NULL: ids */
    int64_t *offsets;               /* [n_users + 1] into items */
    int64_t *items;                 /* [offsets[n_users]]: each user's, ascending, each once */
    int64_t *counts;                /* [n_items]: users of the item */
} rk_interactions;

/* Which of a schema's categorical features are the pair's two ids. */
typedef struct rk_pair_features {
    int32_t user, item;
} rk_pair_features;

/* Keys in an order in which their low 63 bits ascend, which an index has for them. Numbers from 0 on are in
 * their own order. */
static inline uint64_t rk_key_rank(int64_t key) {
    return (uint64_t)key << 1 | (uint64_t)key >> 63;
}

/* The one id of a feature in sample i; RK_BAD_DATA naming row and feature if there is none or several. */
rk_status rk_batch_single_id(const rk_batch *batch, const rk_data_schema *schema, int32_t feature, int64_t i,
                             int64_t *out);

/* All pairs of the dataset, from its beginning to its end. */
rk_status rk_interactions_collect(rk_dataset *dataset, rk_pair_features features, rk_interactions **out);
/* All of both, which are of the same features. */
rk_status rk_interactions_merge(const rk_interactions *a, const rk_interactions *b, rk_interactions **out);
/* The pairs of x by the numbers of `all`, which has them too. */
rk_status rk_interactions_renumber(const rk_interactions *x, const rk_interactions *all,
                                   rk_interactions **out);
/* The number of an id; -1: of a key that no pair has. */
int64_t rk_interactions_user(const rk_interactions *x, int64_t id);
int64_t rk_interactions_item(const rk_interactions *x, int64_t id);
static inline int64_t rk_interactions_user_id(const rk_interactions *x, int64_t user) {
    return x->user_keys ? x->user_keys[user] : user;
}
static inline int64_t rk_interactions_item_id(const rk_interactions *x, int64_t item) {
    return x->item_keys ? x->item_keys[item] : item;
}
uint64_t rk_interactions_bytes(const rk_interactions *x);
/* One more reference to what does not change any more; unref of the last one frees it. NULL is fine. */
rk_interactions *rk_interactions_ref(rk_interactions *interactions);
void rk_interactions_unref(rk_interactions *interactions);
static inline void rk_interactions_auto_unref(rk_interactions **interactions) { /* for RK_AUTO */
    rk_interactions_unref(*interactions);
}

#endif
