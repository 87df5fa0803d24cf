/* Inside a graph on a GPU. */
#ifndef RK_NN_CUDA_DEVICE_GRAPH_INTERNAL_H
#define RK_NN_CUDA_DEVICE_GRAPH_INTERNAL_H

#include "nn/dense_optimizer_internal.h"
#include "nn/cuda/device_op.h"

/* The dense optimizer's part (device_dense_optimizer.c). */
typedef struct rk_device_update {
    rk_dense_optimizer *optimizer;    /* NULL: none */
    rk_cuda_dense dense;              /* as the kernels get it */
    int32_t *tensors;                 /* [n_pieces]: the parameter of each */
    rk_cuda_dense_state *step_status; /* pinned */
    struct rk_device_update_send {
        rk_update *update; /* pinned: a step's numbers, until their copy is done */
        rk_stream_event *event;
    } sends[2];
    int next_send;
} rk_device_update;

struct rk_device_graph {
    rk_graph *graph;
    rk_device *device;
    rk_device_graph_options options;
    const rk_device_op **ops; /* [n_nodes]; NULL: an input or a view */
    rk_place *places;         /* [n_nodes] */
    rk_value_layout layout;   /* hosts: the concat in whose columns an input stands, or -1; */
    int64_t *columns;         /* [n_nodes]: from this one on */
    bool *no_gradient;        /* [n_nodes] */
    int64_t *states;          /* [n_nodes]: where each node's running statistics stand among all */
    int64_t *sums;            /* [n_nodes]: and its sums over the batch */
    int64_t *offsets;         /* [graph->n_parameters]: where each parameter stands among all */
    int64_t n_memory, n_states, n_sums, n_scratch, n_parameters; /* floats */
    /* device memory */
    float *memory, *scratch, *node_sums;
    float *parameters, *gradients;    /* [n_parameters] */
    float *live_states, *kept_states; /* kept: as they were before the step */
    const int64_t *step;              /* of the last training forward, */
    int64_t n_rest, total;            /* whose batch had so many samples at rest, and in all */
    rk_device_update update;
};

/* Device memory of n floats, counted. */
rk_status rk_device_graph_allocate_floats(rk_device_graph *graph, int64_t n, float **out);

rk_status rk_device_optimizer_create(rk_device_graph *graph, rk_dense_optimizer *optimizer);
void rk_device_optimizer_free(rk_device_graph *graph);
/* The optimizer's slots, between the host's memory and the device's. */
rk_status rk_device_optimizer_copy_slots(rk_device_graph *graph, bool to_device);

#endif
