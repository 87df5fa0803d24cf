/* The input and output of rankings: which items' positions in users' rankings are computed. */
#ifndef RK_NN_RANKING_POSITIONS_H
#define RK_NN_RANKING_POSITIONS_H

#include <stdint.h>

/* Items of each of many users, by the user's number: those of user u are items[offsets[u]] .. items[offsets[u
 * + 1] - 1], ascending. */
typedef struct rk_item_lists {
    const int64_t *offsets, *items;
} rk_item_lists;

/* All in the host's memory. */
typedef struct rk_ranking_positions {
    int64_t n_items, n_users, dim;
    const float *items;     /* [n_items, dim] */
    const float *users;     /* [n_users, dim] */
    const int64_t *numbers; /* [n_users], ascending: of the users in the lists */
    rk_item_lists masked;   /* left out of the rankings; NULLs: none */
    rk_item_lists asked;
    uint32_t *places; /* beside asked.items, those of the users: written. UINT32_MAX where one is masked */
} rk_ranking_positions;

#endif
