/* A linear over target_pairs in prediction. Of row r its input is [q, k_r, q - k_r, q * k_r], and with W in
 * four parts of a row's columns each y_r = b + k_r (W_k - W_d) + q (W_q + W_d) + (q * k_r) W_p added up in
 * this order: half of the products, the first of which are the same for all targets of a history, and the
 * second for all rows of it. */
#ifndef RK_NN_OPS_PACKED_PAIR_WEIGHTS_H
#define RK_NN_OPS_PACKED_PAIR_WEIGHTS_H

#include "gemm/batch_invariant.h"
#include "nn/graph/graph_internal.h"

typedef struct rk_packed_pair_weights {
    rk_batch_invariant_matrix rows, target, products; /* W_k - W_d, W_q + W_d, W_p: [cols, units] */
} rk_packed_pair_weights;

/* Of a linear by row that reads target_pairs. Release after a failure too. */
rk_status rk_packed_pair_weights_init(rk_packed_pair_weights *panels, const rk_graph *graph,
                                      const rk_node *linear);
rk_status rk_packed_pair_weights_set(rk_packed_pair_weights *panels, const rk_graph *graph,
                                     const rk_node *linear);
void rk_packed_pair_weights_release(rk_packed_pair_weights *panels);

#endif
