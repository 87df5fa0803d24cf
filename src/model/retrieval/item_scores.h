/* Scores of items for users: matrix products of users' vectors with those of the items. */
#ifndef RK_MODEL_RETRIEVAL_ITEM_SCORES_H
#define RK_MODEL_RETRIEVAL_ITEM_SCORES_H

#include "gemm/gemm.h"

/* Vectors of items first .. first+n-1 into rows [n, dim]. */
typedef rk_status (*rk_item_rows)(void *context, int64_t first, int64_t n, rk_real *rows);

/* The vectors of all items, laid out for products with those of RK_USERS_AT_ONCE users: [dim, n_items]. They
 * are asked for some at a time, in order. */
rk_status rk_item_matrix_create(int64_t n_items, int64_t dim, rk_item_rows rows, void *context,
                                rk_packed_matrix **out);

typedef struct rk_item_scores {
    const rk_packed_matrix *items; /* [dim, n_items] */
    int64_t n_items, dim;
    const rk_real *users; /* [n_users, dim] */
    /* Called once for each user, on any thread. scores [n_items]. */
    rk_status (*take)(void *context, int64_t user, const rk_real *scores);
    void *context;
} rk_item_scores;

/* For users first .. end-1, in parallel by blocks of RK_USERS_AT_ONCE; first is a multiple of that. A failure
 * is that of the lowest user whose block failed. */
rk_status rk_score_items_of_users(const rk_item_scores *scores, int64_t first, int64_t end);

/* Of n_users that n_ranks share out by whole blocks: the first one of a rank; of rank n_ranks, n_users. */
int64_t rk_first_user_of_rank(int64_t n_users, int32_t rank, int32_t n_ranks);

#endif
