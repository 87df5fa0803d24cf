/* A finished model graph (nn/graph) on a GPU, not a captured CUDA graph (cuda/device/device.h): forward,
 * backward and the dense optimizer over whole batches, with a launch or a few for each node. The caller
 * computes the loss.
 *
 * Values of the whole batch stay in device memory. Host memory has a copy of parameters, slots and running
 * statistics, their home: create and reload copy it to the device, flush brings it up to date. */
#ifndef RK_NN_CUDA_DEVICE_GRAPH_H
#define RK_NN_CUDA_DEVICE_GRAPH_H

#include "cuda/device/device.h"
#include "nn/dense_optimizer.h"
#include "nn/graph/graph.h"

typedef struct rk_device_graph rk_device_graph;

/* What the caller does with an input. */
typedef struct rk_device_graph_input {
    rk_value value;
    bool may_stride;  /* its samples may stand rk_device_graph_stride apart: in the columns of a concat, which
                         then copies nothing */
    bool no_gradient; /* its gradient is not read, and may not exist */
} rk_device_graph_input;

typedef struct rk_device_graph_options {
    int64_t max_batch;
    bool training;
    bool tf32;                           /* linear layers of dtype f32 may be multiplied in tf32 */
    const rk_device_graph_input *inputs; /* [n_inputs]: those of which there is something to say */
    int32_t n_inputs;
    /* Over ranks: values [n], in device memory, become their sums over all ranks on that stream. NULL: one
     * rank. */
    void (*sum)(void *context, rk_stream *stream, float *values, int64_t n);
    void *sum_context;
} rk_device_graph_options;

/* optimizer: NULL for prediction. Errors: RK_UNSUPPORTED names the first node whose operation has no CUDA
 * version. */
rk_status rk_device_graph_create(rk_graph *graph, rk_dense_optimizer *optimizer, rk_device *device,
                                 const rk_device_graph_options *options, rk_device_graph **out);
void rk_device_graph_free(rk_device_graph *graph);
bool rk_device_graph_needs_rank_sums(
    const rk_device_graph *graph); /* training sums over ranks on its way, and depends on `total` */

/* Device memory [max_batch, rows, cols], samples rk_device_graph_stride values apart: an input's data is the
 * caller's to write before forward; an output's gradient before backward. */
float *rk_device_graph_data(rk_device_graph *graph, rk_value value);
float *rk_device_graph_gradient(rk_device_graph *graph, rk_value value);
int64_t rk_device_graph_stride(const rk_device_graph *graph,
                               rk_value value); /* of data and gradient: rows * cols but for inputs that may
                                                   stride, and concats for linear layers; multiples of 4
                                                   then */
float *rk_device_graph_gradients(rk_device_graph *graph,
                                 size_t *n); /* of all parameters, with room between them that nobody reads */
const float *rk_device_graph_parameter_gradient(const rk_device_graph *graph, int32_t parameter);

/* All on one stream. The last n_rest of the n samples here are asked for no output that leads
 * (rk_graph_mark_partial_batch). total: samples of the batch on all ranks; n on one rank. step: of dropout's
 * masks, which are those of the CPU engine, and the number in the batch of the first sample here, a multiple
 * of 4; in device memory (two int64), so that a graph of launches can be run again. */
void rk_device_graph_forward(rk_device_graph *graph, rk_stream *stream, int64_t n, int64_t n_rest,
                             int64_t total, bool training, const int64_t *step);
void rk_device_graph_backward(rk_device_graph *graph, rk_stream *stream,
                              int64_t n); /* fills every parameter's gradient */

/* The optimizer's step. All but prepare, end and check can be in a graph of launches: what changes from step
 * to step is in the device's memory. *stop, in device memory, says by its bits
 * (cuda/dense/dense_optimizer_step.h) that a loss or a gradient was not finite; then nothing is updated.
 *
 *     prepare_update         before the step: brings its learning rate and the like to the device
 *     compute_gradient_norm  adds l2; the norm of all gradients, for clipping; sets RK_CUDA_STOP_DENSE in
 *                            *stop if one is not finite
 *     update                 unless *stop; else running statistics are put back as they were before the step
 *     end_step               when the host knows whether the step was taken: counts it
 *     check_step             waits; RK_NOT_FINITE names the parameter, as the CPU engine */
rk_status rk_device_graph_prepare_update(rk_device_graph *graph, rk_stream *stream);
void rk_device_graph_compute_gradient_norm(rk_device_graph *graph, rk_stream *stream, uint32_t *stop);
void rk_device_graph_update(rk_device_graph *graph, rk_stream *stream, const uint32_t *stop);
void rk_device_graph_end_step(rk_device_graph *graph, bool applied);
rk_status rk_device_graph_check_step(rk_device_graph *graph, rk_stream *stream);

rk_status rk_device_graph_flush(rk_device_graph *graph);
rk_status rk_device_graph_reload(rk_device_graph *graph);

#endif
