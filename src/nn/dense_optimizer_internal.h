/* Inside a dense optimizer: what its CPU and GPU parts share. */
#ifndef RK_NN_DENSE_OPTIMIZER_INTERNAL_H
#define RK_NN_DENSE_OPTIMIZER_INTERNAL_H

#include "nn/dense_optimizer.h"
#include "optim/optimizer_slots.h"

/* One piece of work: a chunk of a tensor, one of its rows, or all of it, by the optimizer's kind. */
typedef struct rk_dense_piece {
    int32_t parameter;
    int64_t first, count;
    int64_t row; /* for slots that are kept a row */
} rk_dense_piece;

struct rk_dense_optimizer {
    rk_dense_optimizer_config config;
    rk_graph *graph;
    int n_slots;
    rk_slot slots[RK_MAX_SLOTS];
    float **slot_values; /* [n_parameters * n_slots] */
    int64_t *slot_counts;
    rk_dense_piece *pieces; /* [n_pieces] */
    size_t n_pieces, pieces_capacity;
    uint64_t n_values; /* of all parameters */
    double *squares;   /* [n_pieces] */
    int64_t step;
    double factor;
    rk_update update;
    float gradient_scale;
};

#endif
