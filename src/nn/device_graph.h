/* A finished graph on a GPU: forward, loss by the caller, backward, and the dense optimizer, over whole batches, a launch or a few a node.
 *
 * Values of the whole batch stay in the device's memory. Parameters, slots and running statistics in the host's memory stay their home: create and refresh copy them to the
 * device, settle brings them back. */
#ifndef RK_NN_DEVICE_GRAPH_H
#define RK_NN_DEVICE_GRAPH_H

#include "cuda/device.h"
#include "nn/dense_optimizer.h"
#include "nn/graph.h"

typedef struct rk_device_graph rk_device_graph;

typedef struct rk_device_graph_options {
    int64_t max_batch;
    bool training;
    bool tf32;          /* linear layers of dtype f32 may be multiplied in tf32 */
} rk_device_graph_options;

/* optimizer: NULL for prediction. Errors: RK_UNSUPPORTED names the first node whose operation has no CUDA version. */
rk_status rk_device_graph_create(rk_graph *graph, rk_dense_optimizer *optimizer, rk_device *device, const rk_device_graph_options *options, rk_device_graph **out);
void rk_device_graph_free(rk_device_graph *graph);
uint64_t rk_device_graph_bytes(const rk_device_graph *graph);

/* Device memory [max_batch, rows, cols]: an input's data is the caller's to write before forward; an output's gradient before backward. */
float *rk_device_graph_data(rk_device_graph *graph, rk_value value);
float *rk_device_graph_gradient(rk_device_graph *graph, rk_value value);
float *rk_device_graph_gradients(rk_device_graph *graph, size_t *n); /* of all parameters, in the order of rk_graph_gradients */

/* All on one stream. step: of dropout's masks, which are those of the CPU engine; in device memory (one int64), so that a graph of launches can be run again. */
void rk_device_graph_forward(rk_device_graph *graph, rk_stream *stream, int64_t n, bool training, const int64_t *step);
void rk_device_graph_backward(rk_device_graph *graph, rk_stream *stream, int64_t n); /* fills every parameter's gradient */
/* Checks the gradients and, unless one is not finite (or *stop, device memory, is not 0: a loss or a row's gradient was not), takes the optimizer's step. The host learns by check. */
void rk_device_graph_update(rk_device_graph *graph, rk_stream *stream, const uint32_t *stop);
rk_status rk_device_graph_check(rk_device_graph *graph, rk_stream *stream); /* waits; RK_NOT_FINITE names the parameter, as the CPU engine */

rk_status rk_device_graph_settle(rk_device_graph *graph);
rk_status rk_device_graph_refresh(rk_device_graph *graph);

#endif
