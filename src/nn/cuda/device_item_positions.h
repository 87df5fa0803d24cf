/* Items' places in users' rankings by a GPU: scores are products of vectors, a block of users at a time. */
#ifndef RK_NN_CUDA_DEVICE_ITEM_POSITIONS_H
#define RK_NN_CUDA_DEVICE_ITEM_POSITIONS_H

#include "cuda/metrics/item_positions.h"

/* Items of each of many users, by the user's number: those of user u are items[offsets[u]] .. items[offsets[u
 * + 1] - 1], ascending. */
typedef struct rk_item_lists {
    const int64_t *offsets, *items;
} rk_item_lists;

/* All in the host's memory. */
typedef struct rk_item_positions {
    int64_t n_items, n_users, dim;
    const float *items;     /* [n_items, dim] */
    const float *users;     /* [n_users, dim] */
    const int64_t *numbers; /* [n_users], ascending: of the users in the lists */
    rk_item_lists masked;   /* left out of the rankings; NULLs: none */
    rk_item_lists asked;
    uint32_t *places; /* beside asked.items, those of the users: written. RK_NO_PLACE where one is masked */
} rk_item_positions;

/* In f32, always. scores_at_once: 0: as many as 256 MB take, or fewer where there is less room. Waits for the
 * result. Errors: RK_NOT_FINITE names the first user and item; RK_NO_MEMORY: the GPU has no room for the
 * items' vectors and one user's scores. */
rk_status rk_device_item_positions(rk_device *device, rk_stream *stream, const rk_item_positions *args,
                                   int64_t scores_at_once);

#endif
