#include "cuda/device/device_state.h"

struct rk_stream_event {
    rk_device *device;
    cudaEvent_t event;
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
    record_failure(stream, cudaEventRecord(other->reached, rk_stream_native(other)), "setting a mark");
    record_failure(stream, cudaStreamWaitEvent(rk_stream_native(stream), other->reached, 0),
                   "waiting for a stream");
}

rk_status rk_stream_event_create(rk_device *device, rk_stream_event **out) {
    rk_stream_event *mark;
    rk_device_make_current(device);
    RK_TRY(rk_alloc(1, sizeof *mark, &mark));
    mark->device = device;
    cudaError_t error = cudaEventCreateWithFlags(&mark->event, cudaEventDisableTiming);
    if (error == cudaSuccess) {
        *out = mark;
        return RK_OK;
    }
    rk_free(mark);
    return rk_cuda_error(error, "a mark cannot be made");
}

void rk_stream_event_free(rk_stream_event *mark) {
    if (!mark) return;
    rk_device_make_current(mark->device);
    (void)cudaEventDestroy(mark->event);
    rk_free(mark);
}

void rk_stream_record_event(rk_stream *stream, rk_stream_event *mark) {
    record_failure(stream, cudaEventRecord(mark->event, rk_stream_native(stream)), "setting a mark");
    mark->is_set = true;
}

void rk_stream_wait_event(rk_stream *stream, rk_stream_event *mark) {
    if (mark->is_set)
        record_failure(stream, cudaStreamWaitEvent(rk_stream_native(stream), mark->event, 0),
                       "waiting for a mark");
}

rk_status rk_stream_event_sync(rk_stream_event *mark) {
    rk_device_make_current(mark->device);
    if (mark->is_set)
        rk_device_record_failure(mark->device, cudaEventSynchronize(mark->event), "work on the GPU");
    return rk_device_failure(mark->device);
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
