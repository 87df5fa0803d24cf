/* Inside a graph: what building, planning and running share. */
#ifndef RK_NN_GRAPH_PARTS_H
#define RK_NN_GRAPH_PARTS_H

#include "nn/op.h"

struct rk_graph {
    uint64_t seed;
    rk_status status;        /* of building: the first failure */
    char error[1024];        /* its message */
    rk_node **nodes;         /* [n_nodes]; a node's number is its value */
    size_t n_nodes, nodes_capacity;
    rk_parameter *parameters; /* [n_parameters] */
    size_t n_parameters, parameters_capacity;
    bool finished, training;
    int64_t max_batch;
    int64_t step;            /* of the last forward: dropout's backward draws the same mask */
    void *arena;
    size_t arena_bytes;
};

/* Give every node its memory for batches of max_batch samples (graph_plan.c). */
rk_status rk_graph_plan(rk_graph *graph);
/* The node whose memory a view shows. */
rk_node *rk_graph_root(const rk_graph *graph, rk_value value);
/* First values of a parameter, from (seed, its name, the place). */
void rk_parameter_fill(const rk_graph *graph, rk_parameter *parameter, const rk_initializer *initializer);

#endif
