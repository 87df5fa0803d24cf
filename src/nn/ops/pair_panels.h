/* A linear over target_pairs in prediction. Of row r its input is [q, k_r, q - k_r, q * k_r], and with W in
 * four parts of a row's columns each y_r = b + k_r (W_k - W_d) + q (W_q + W_d) + (q * k_r) W_p added up in
 * this order: half of the products, the first of which are the same for all targets of a history, and the
 * second for all rows of it. */
#ifndef RK_NN_OPS_PAIR_PANELS_H
#define RK_NN_OPS_PAIR_PANELS_H

#include "gemm/batch_invariant.h"
#include "nn/graph/graph_internal.h"

typedef struct rk_pair_panels {
    rk_batch_invariant_matrix rows, target, products; /* W_k - W_d, W_q + W_d, W_p: [cols, units] */
} rk_pair_panels;

/* Of a linear by row that reads target_pairs. Release after a failure too. */
rk_status rk_pair_panels_init(rk_pair_panels *panels, const rk_graph *graph, const rk_node *linear);
rk_status rk_pair_panels_set(rk_pair_panels *panels, const rk_graph *graph, const rk_node *linear);
void rk_pair_panels_release(rk_pair_panels *panels);

#endif
