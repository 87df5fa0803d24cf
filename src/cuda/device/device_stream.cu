#include "cuda/device/device_state.h"

struct rk_stream_event {
    rk_device *device;
    cudaEvent_t handle;
    bool is_set;
};
struct rk_launch_graph {
    cudaGraphExec_t native;
};

rk_status rk_stream_create(rk_device *device, rk_stream **out) {
    rk_stream *stream;
    rk_device_make_current(device);
    RK_TRY(rk_alloc(1, sizeof *stream, &stream));
    stream->device = device;
    cudaError_t error = cudaStreamCreateWithFlags(&stream->native, cudaStreamNonBlocking);
    if (error == cudaSuccess) error = cudaEventCreateWithFlags(&stream->reached, cudaEventDisableTiming);
    if (error == cudaSuccess) {
        *out = stream;
        return RK_OK;
    }
    rk_stream_free(stream);
    return rk_cuda_error(error, "a stream cannot be made");
}

void rk_stream_free(rk_stream *stream) {
    if (!stream) return;
    rk_device_make_current(stream->device);
    if (stream->native && cudaStreamSynchronize(stream->native) != cudaSuccess)
        (void)cudaGetLastError(); /* its failure is nobody else's */
    for (int kind = 0; kind < RK_SCRATCH_KINDS; kind++)
        rk_scratch_free(stream->device, stream->scratch[kind]);
    if (stream->reached) (void)cudaEventDestroy(stream->reached);
    if (stream->native) (void)cudaStreamDestroy(stream->native);
    rk_free(stream);
}

rk_device *rk_stream_device(const rk_stream *stream) {
    return stream->device;
}

int32_t rk_stream_n_processors(const rk_stream *stream) {
    return stream->device->info.n_processors;
}

cudaStream_t rk_stream_native(rk_stream *stream) {
    rk_device_make_current(stream->device);
    return stream->native;
}

static void record_failure(rk_stream *stream, cudaError_t error, const char *what) {
    rk_device_record_failure(stream->device, error, what);
}

void rk_stream_check_launch(rk_stream *stream, const char *kernel) {
    cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess) return;
    char what[128];
    snprintf(what, sizeof what, "launch of '%s'", kernel);
    record_failure(stream, error, what);
}

rk_status rk_stream_sync(rk_stream *stream) {
    record_failure(stream, cudaStreamSynchronize(rk_stream_native(stream)), "work on the GPU");
    return rk_device_failure(stream->device);
}

void rk_stream_wait_for_stream(rk_stream *stream, rk_stream *other) {
    record_failure(stream, cudaEventRecord(other->reached, rk_stream_native(other)), "recording an event");
    record_failure(stream, cudaStreamWaitEvent(rk_stream_native(stream), other->reached, 0),
                   "waiting for a stream");
}

rk_status rk_stream_event_create(rk_device *device, rk_stream_event **out) {
    rk_stream_event *event;
    rk_device_make_current(device);
    RK_TRY(rk_alloc(1, sizeof *event, &event));
    event->device = device;
    cudaError_t error = cudaEventCreateWithFlags(&event->handle, cudaEventDisableTiming);
    if (error == cudaSuccess) {
        *out = event;
        return RK_OK;
    }
    rk_free(event);
    return rk_cuda_error(error, "an event cannot be made");
}

void rk_stream_event_free(rk_stream_event *event) {
    if (!event) return;
    rk_device_make_current(event->device);
    (void)cudaEventDestroy(event->handle);
    rk_free(event);
}

void rk_stream_record_event(rk_stream *stream, rk_stream_event *event) {
    record_failure(stream, cudaEventRecord(event->handle, rk_stream_native(stream)), "recording an event");
    event->is_set = true;
}

void rk_stream_wait_event(rk_stream *stream, rk_stream_event *event) {
    if (event->is_set)
        record_failure(stream, cudaStreamWaitEvent(rk_stream_native(stream), event->handle, 0),
                       "waiting for an event");
}

rk_status rk_stream_event_sync(rk_stream_event *event) {
    rk_device_make_current(event->device);
    if (event->is_set)
        rk_device_record_failure(event->device, cudaEventSynchronize(event->handle), "work on the GPU");
    return rk_device_failure(event->device);
}

static void copy_memory(rk_stream *stream, void *to, const void *from, size_t n_bytes, cudaMemcpyKind kind,
                        const char *what) {
    if (n_bytes)
        record_failure(stream, cudaMemcpyAsync(to, from, n_bytes, kind, rk_stream_native(stream)), what);
}
void rk_stream_upload(rk_stream *stream, void *to_device, const void *from_host, size_t n_bytes) {
    copy_memory(stream, to_device, from_host, n_bytes, cudaMemcpyHostToDevice, "copy to the GPU");
}
void rk_stream_download(rk_stream *stream, void *to_host, const void *from_device, size_t n_bytes) {
    copy_memory(stream, to_host, from_device, n_bytes, cudaMemcpyDeviceToHost, "copy from the GPU");
}
void rk_stream_copy(rk_stream *stream, void *to_device, const void *from_device, size_t n_bytes) {
    copy_memory(stream, to_device, from_device, n_bytes, cudaMemcpyDeviceToDevice, "copy on the GPU");
}
void rk_stream_fill(rk_stream *stream, void *device_memory, int byte, size_t n_bytes) {
    if (n_bytes)
        record_failure(stream, cudaMemsetAsync(device_memory, byte, n_bytes, rk_stream_native(stream)),
                       "fill on the GPU");
}

/* Graphs of launches */

bool rk_stream_is_captured(const rk_stream *stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    (void)cudaStreamIsCapturing(stream->native, &status);
    return status != cudaStreamCaptureStatusNone;
}

rk_status rk_stream_capture_begin(rk_stream *stream) {
    RK_TRY(rk_device_failure(stream->device));
    cudaError_t error = cudaStreamBeginCapture(rk_stream_native(stream), cudaStreamCaptureModeThreadLocal);
    return error == cudaSuccess ? RK_OK : rk_cuda_error(error, "launches cannot be captured");
}

rk_status rk_stream_capture_end(rk_stream *stream, rk_launch_graph **out) {
    rk_launch_graph *graph;
    cudaGraph_t captured = NULL;
    cudaError_t error = cudaStreamEndCapture(rk_stream_native(stream), &captured);
    if (error != cudaSuccess) return rk_cuda_error(error, "launches cannot be captured");
    rk_status status = rk_alloc(1, sizeof *graph, &graph);
    if (status == RK_OK) {
        error = cudaGraphInstantiate(&graph->native, captured, 0);
        if (error != cudaSuccess) {
            rk_free(graph);
            status = rk_cuda_error(error, "a graph of launches cannot be made");
        }
    }
    (void)cudaGraphDestroy(captured);
    if (status != RK_OK) return status;
    status = rk_device_failure(stream->device); /* a launch in it may have failed */
    if (status == RK_OK)
        *out = graph;
    else
        rk_launch_graph_free(graph);
    return status;
}

void rk_launch_graph_run(rk_launch_graph *graph, rk_stream *stream) {
    record_failure(stream, cudaGraphLaunch(graph->native, rk_stream_native(stream)), "launch of a graph");
}

void rk_launch_graph_free(rk_launch_graph *graph) {
    if (!graph) return;
    (void)cudaGraphExecDestroy(graph->native);
    rk_free(graph);
}
