/* Where items stand in users' rankings of all items, on the device: counted, not sorted, so it is the same
 * whatever the order of the work. */
#ifndef RK_CUDA_METRICS_RANKING_POSITIONS_H
#define RK_CUDA_METRICS_RANKING_POSITIONS_H

#include "cuda/launch.h"

#define RK_NO_PLACE UINT32_MAX /* of an item that is masked */

/* A user's items among `masked` and `asked`: from the first to before the end. */
typedef struct rk_cuda_item_lists {
    int64_t masked, masked_end, asked, asked_end;
} rk_cuda_item_lists;

typedef struct rk_cuda_ranking_positions_args {
    int64_t n_users, n_items;
    float *scores;                   /* [n_users, n_items]; out: masked ones are -infinity */
    const rk_cuda_item_lists *lists; /* [n_users] */
    const int64_t *masked, *asked;   /* each user's ascending */
    uint32_t *places;                /* beside `asked`, out: how many items rank before it; RK_NO_PLACE */
    uint64_t *bad; /* one: the least user << 32 | item whose score is not finite and not masked; left as it is
                      where there is none */
} rk_cuda_ranking_positions_args;

// clang-format off
#define RK_CUDA_RANKING_POSITIONS_LIST(X)                                                         \
    X(rk_cuda_ranking_positions, (rk_stream *stream, const rk_cuda_ranking_positions_args *args))
// clang-format on
RK_CUDA_RANKING_POSITIONS_LIST(RK_CUDA_PROTOTYPE)

#endif
