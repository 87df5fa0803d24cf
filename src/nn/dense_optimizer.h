/* One optimizer over all parameters of a graph. */
#ifndef RK_NN_DENSE_OPTIMIZER_H
#define RK_NN_DENSE_OPTIMIZER_H

#include "nn/graph/graph.h"

typedef struct rk_dense_optimizer rk_dense_optimizer;

typedef struct rk_dense_optimizer_config {
    rk_optimizer optimizer;
    double max_gradient_norm; /* clip the norm over all parameters; 0 = none */
    double l2;                /* adds l2 * w to the gradients of weights (not of biases and norms) */
} rk_dense_optimizer_config;

/* The graph must outlive it. */
rk_status rk_dense_optimizer_create(const rk_dense_optimizer_config *config, rk_graph *graph,
                                    rk_dense_optimizer **out);
void rk_dense_optimizer_free(rk_dense_optimizer *optimizer);
/* One step from the graph's gradients, in two parts: check fails with RK_NOT_FINITE, naming the parameter,
 * before anything is written. */
rk_status rk_dense_optimizer_check_gradients(rk_dense_optimizer *optimizer);
void rk_dense_optimizer_apply(rk_dense_optimizer *optimizer);
void rk_dense_optimizer_scale_learning_rate(rk_dense_optimizer *optimizer, double factor);
/* "dense/<parameter>/<slot>" and "dense/step". */
rk_status rk_dense_optimizer_state_dict(rk_dense_optimizer *optimizer, rk_state_dict *state);
uint64_t rk_dense_optimizer_bytes(const rk_dense_optimizer *optimizer);

#endif
