/* Inside a graph: what building, planning and running share. */
#ifndef RK_NN_GRAPH_PARTS_H
#define RK_NN_GRAPH_PARTS_H

#include <stdatomic.h>

#include "nn/op.h"

enum { RK_GRADIENT_SLICES = 16 };

struct rk_graph {
    uint64_t seed;
    rk_status status;        /* of building: the first failure */
    char error[1024];        /* its message */
    rk_node **nodes;         /* [n_nodes]; a node's number is its value */
    size_t n_nodes, nodes_capacity;
    rk_parameter *parameters; /* [n_parameters] */
    size_t n_parameters, parameters_capacity;
    bool finished, training;
    bool keeps;              /* the memory holds the whole batch */
    int64_t max_batch, block; /* samples */
    int64_t last_step;       /* of the last forward: dropout's backward draws the same mask */
    int64_t memory_reals;    /* for `block` samples, or max_batch if it keeps; set by the plan */
    int64_t gradient_reals;  /* of all parameters */
    rk_real *gradients;      /* [gradient_reals]: the batch's */
    /* a thread each, made when a run first has so many */
    rk_real **thread_memory;     /* [n_threads][memory_reals]; one for all if it keeps */
    rk_real **thread_gradients;  /* [n_threads][gradient_reals], zero between groups */
    void **thread_workspaces;    /* [n_threads][workspace_bytes] */
    size_t workspace_bytes;
    int n_threads;
    /* Which group's gradients are to be added next to each slice of the batch's. */
    atomic_size_t turns[RK_GRADIENT_SLICES];
};

/* Give every node its place in the memory of a run (graph_plan.c). */
rk_status rk_graph_plan(rk_graph *graph);
/* The node whose memory a view shows. */
rk_node *rk_graph_root(const rk_graph *graph, rk_value value);
/* First values of a parameter, from (seed, its name, the place). */
void rk_parameter_fill(const rk_graph *graph, rk_parameter *parameter, const rk_initializer *initializer);

/* Samples first .. last-1 whose gradients are added up by one thread; n_groups of them. */
size_t rk_graph_n_groups(const rk_graph *graph, int64_t n);
void rk_graph_group(const rk_graph *graph, int64_t n, size_t group, int64_t *first, int64_t *last);

/* Memory for every thread of the pool (graph_memory.c). */
rk_status rk_graph_reserve(rk_graph *graph);
void rk_graph_release_memory(rk_graph *graph);
/* Adds a group's gradients, first .. last-1, to the batch's when the groups before it have been, and zeroes them. */
void rk_graph_begin_gradients(rk_graph *graph);
void rk_graph_add_gradients(rk_graph *graph, size_t group, rk_real *gradients, int64_t first, int64_t last);

#endif
