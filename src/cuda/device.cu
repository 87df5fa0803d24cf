#include "cuda/device_state.h"

struct rk_stream_mark {
    rk_device *device;
    cudaEvent_t event;
    bool is_set;
};
struct rk_launch_graph {
    cudaGraphExec_t native;
};

static const size_t STAGING_BYTES = 4 << 20;

static void use(const rk_device *device) { (void)cudaSetDevice(device->number); }

static rk_status cuda_error(cudaError_t error, const char *what) { return rk_error(RK_UNSUPPORTED, "%s: %s", what, cudaGetErrorString(error)); }

void rk_device_keep_reason(rk_device *device, const char *reason) {
    if (device->failure != RK_OK) return;
    device->failure = RK_INTERNAL;
    snprintf(device->reason, sizeof device->reason, "%s", reason);
}

void rk_device_keep_failure(rk_device *device, cudaError_t error, const char *what) {
    if (error == cudaSuccess || device->failure != RK_OK) return;
    device->failure = RK_INTERNAL;
    snprintf(device->reason, sizeof device->reason, "GPU %d: %s: %s", (int)device->number, what, cudaGetErrorString(error));
}

static rk_status kept_failure(const rk_device *device) { return device->failure == RK_OK ? RK_OK : rk_error(device->failure, "%s", device->reason); }

static rk_status query_device(rk_device *device) {
    cudaDeviceProp properties;
    size_t free_bytes, all_bytes;
    cudaError_t error = cudaGetDeviceProperties(&properties, device->number);
    if (error == cudaSuccess) error = cudaMemGetInfo(&free_bytes, &all_bytes);
    if (error != cudaSuccess) return cuda_error(error, "the GPU cannot be used");
    rk_device_info *info = &device->info;
    snprintf(info->name, sizeof info->name, "%s", properties.name);
    info->n_processors = properties.multiProcessorCount;
    info->major = properties.major;
    info->minor = properties.minor;
    info->memory_bytes = all_bytes;
    info->free_bytes = free_bytes;
#ifndef __CUDACC__
    info->is_emulated = true;
#endif
    return RK_OK;
}

static rk_status find_device(int32_t number) {
    int n_devices = 0;
    cudaError_t error = cudaGetDeviceCount(&n_devices);
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
        return rk_error(RK_UNSUPPORTED, "no GPU can be used: %s\nhint: 'nvidia-smi' shows GPUs and driver; without one, 'device: cpu' is the engine", cudaGetErrorString(error));
    }
    RK_FAIL_IF(number < 0 || number >= n_devices, RK_INVALID_ARGUMENT, "there is no GPU %d; %d %s, counted from 0", (int)number, n_devices, n_devices == 1 ? "is there" : "are there");
    error = cudaSetDevice(number);
    return error == cudaSuccess ? RK_OK : cuda_error(error, "the GPU cannot be used");
}

rk_status rk_device_open(int32_t number, rk_device **out) {
    rk_device *device;
    rk_status status;
    RK_TRY(find_device(number));
    RK_TRY(rk_alloc(1, sizeof *device, &device));
    device->number = number;
    RK_GOTO(query_device(device));
    RK_GOTO(rk_stream_create(device, &device->stream));
    RK_GOTO(rk_device_alloc_host(device, STAGING_BYTES, &device->staging));
    RK_GOTO(rk_blas_create(device, &device->blas));
done:
    if (status == RK_OK)
        *out = device;
    else
        rk_device_close(device);
    return status;
}

void rk_device_close(rk_device *device) {
    if (!device) return;
    use(device);
    rk_blas_free(device->blas);
    rk_device_free_host(device, device->staging);
    rk_stream_free(device->stream);
    rk_free(device);
}

rk_status rk_device_query(rk_device *device, rk_device_info *out) {
    use(device);
    RK_TRY(query_device(device));
    *out = device->info;
    return RK_OK;
}

static rk_status memory_error(cudaError_t error, size_t n_bytes, const char *kind) {
    size_t free_bytes = 0, all_bytes = 0;
    (void)cudaGetLastError(); /* it is told here, not by the next launch */
    if (error != cudaErrorMemoryAllocation) return cuda_error(error, kind);
    (void)cudaMemGetInfo(&free_bytes, &all_bytes);
    return rk_error(RK_NO_MEMORY, "%s: %zu bytes are asked for; the GPU has %zu of %zu free", kind, n_bytes, free_bytes, all_bytes);
}

rk_status rk_device_alloc(rk_device *device, size_t n_bytes, void **out) {
    void *memory;
    use(device);
    if (!n_bytes) n_bytes = 1;
    cudaError_t error = cudaMalloc(&memory, n_bytes);
    if (error != cudaSuccess) return memory_error(error, n_bytes, "memory of the GPU");
    rk_stream_fill(device->stream, memory, 0, n_bytes);
    rk_status status = rk_stream_sync(device->stream);
    if (status == RK_OK)
        *out = memory;
    else
        rk_device_free(device, memory);
    return status;
}

void rk_device_free(rk_device *device, void *memory) {
    if (!memory) return;
    use(device);
    rk_device_keep_failure(device, cudaFree(memory), "freeing memory");
}

rk_status rk_device_alloc_host(rk_device *device, size_t n_bytes, void **out) {
    void *memory;
    use(device);
    if (!n_bytes) n_bytes = 1;
    cudaError_t error = cudaHostAlloc(&memory, n_bytes, cudaHostAllocDefault);
    if (error != cudaSuccess) return memory_error(error, n_bytes, "pinned memory");
    memset(memory, 0, n_bytes);
    *out = memory;
    return RK_OK;
}

void rk_device_free_host(rk_device *device, void *memory) {
    if (!memory) return;
    use(device);
    rk_device_keep_failure(device, cudaFreeHost(memory), "freeing pinned memory");
}

rk_status rk_device_write(rk_device *device, void *to_device, const void *from_host, size_t n_bytes) {
    for (size_t at = 0; at < n_bytes; at += STAGING_BYTES) {
        size_t n = n_bytes - at < STAGING_BYTES ? n_bytes - at : STAGING_BYTES;
        memcpy(device->staging, (const char *)from_host + at, n);
        rk_stream_upload(device->stream, (char *)to_device + at, device->staging, n);
        RK_TRY(rk_stream_sync(device->stream));
    }
    return RK_OK;
}

rk_status rk_device_read(rk_device *device, void *to_host, const void *from_device, size_t n_bytes) {
    for (size_t at = 0; at < n_bytes; at += STAGING_BYTES) {
        size_t n = n_bytes - at < STAGING_BYTES ? n_bytes - at : STAGING_BYTES;
        rk_stream_download(device->stream, device->staging, (const char *)from_device + at, n);
        RK_TRY(rk_stream_sync(device->stream));
        memcpy((char *)to_host + at, device->staging, n);
    }
    return RK_OK;
}

/* Streams */

rk_status rk_stream_create(rk_device *device, rk_stream **out) {
    rk_stream *stream;
    use(device);
    RK_TRY(rk_alloc(1, sizeof *stream, &stream));
    stream->device = device;
    cudaError_t error = cudaStreamCreateWithFlags(&stream->native, cudaStreamNonBlocking);
    if (error == cudaSuccess) error = cudaEventCreateWithFlags(&stream->reached, cudaEventDisableTiming);
    if (error == cudaSuccess) {
        *out = stream;
        return RK_OK;
    }
    rk_stream_free(stream);
    return cuda_error(error, "a stream cannot be made");
}

void rk_stream_free(rk_stream *stream) {
    if (!stream) return;
    use(stream->device);
    if (stream->native) (void)cudaStreamSynchronize(stream->native);
    if (stream->reached) (void)cudaEventDestroy(stream->reached);
    if (stream->native) (void)cudaStreamDestroy(stream->native);
    rk_free(stream);
}

rk_device *rk_stream_device(const rk_stream *stream) { return stream->device; }

cudaStream_t rk_stream_native(rk_stream *stream) {
    use(stream->device);
    return stream->native;
}

static void keep(rk_stream *stream, cudaError_t error, const char *what) { rk_device_keep_failure(stream->device, error, what); }

void rk_stream_launched(rk_stream *stream, const char *kernel) {
    cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess) return;
    char what[128];
    snprintf(what, sizeof what, "launch of '%s'", kernel);
    keep(stream, error, what);
}

rk_status rk_stream_sync(rk_stream *stream) {
    keep(stream, cudaStreamSynchronize(rk_stream_native(stream)), "work on the GPU");
    return kept_failure(stream->device);
}

void rk_stream_wait(rk_stream *stream, rk_stream *other) {
    keep(stream, cudaEventRecord(other->reached, rk_stream_native(other)), "setting a mark");
    keep(stream, cudaStreamWaitEvent(rk_stream_native(stream), other->reached, 0), "waiting for a stream");
}

rk_status rk_stream_mark_create(rk_device *device, rk_stream_mark **out) {
    rk_stream_mark *mark;
    use(device);
    RK_TRY(rk_alloc(1, sizeof *mark, &mark));
    mark->device = device;
    cudaError_t error = cudaEventCreateWithFlags(&mark->event, cudaEventDisableTiming);
    if (error == cudaSuccess) {
        *out = mark;
        return RK_OK;
    }
    rk_free(mark);
    return cuda_error(error, "a mark cannot be made");
}

void rk_stream_mark_free(rk_stream_mark *mark) {
    if (!mark) return;
    use(mark->device);
    (void)cudaEventDestroy(mark->event);
    rk_free(mark);
}

void rk_stream_set_mark(rk_stream *stream, rk_stream_mark *mark) {
    keep(stream, cudaEventRecord(mark->event, rk_stream_native(stream)), "setting a mark");
    mark->is_set = true;
}

void rk_stream_wait_mark(rk_stream *stream, rk_stream_mark *mark) {
    if (mark->is_set) keep(stream, cudaStreamWaitEvent(rk_stream_native(stream), mark->event, 0), "waiting for a mark");
}

rk_status rk_stream_mark_sync(rk_stream_mark *mark) {
    use(mark->device);
    if (mark->is_set) rk_device_keep_failure(mark->device, cudaEventSynchronize(mark->event), "work on the GPU");
    return kept_failure(mark->device);
}

static void copy(rk_stream *stream, void *to, const void *from, size_t n_bytes, cudaMemcpyKind kind, const char *what) {
    if (n_bytes) keep(stream, cudaMemcpyAsync(to, from, n_bytes, kind, rk_stream_native(stream)), what);
}
void rk_stream_upload(rk_stream *stream, void *to_device, const void *from_host, size_t n_bytes) {
    copy(stream, to_device, from_host, n_bytes, cudaMemcpyHostToDevice, "copy to the GPU");
}
void rk_stream_download(rk_stream *stream, void *to_host, const void *from_device, size_t n_bytes) {
    copy(stream, to_host, from_device, n_bytes, cudaMemcpyDeviceToHost, "copy from the GPU");
}
void rk_stream_copy(rk_stream *stream, void *to_device, const void *from_device, size_t n_bytes) {
    copy(stream, to_device, from_device, n_bytes, cudaMemcpyDeviceToDevice, "copy on the GPU");
}
void rk_stream_fill(rk_stream *stream, void *device_memory, int byte, size_t n_bytes) {
    if (n_bytes) keep(stream, cudaMemsetAsync(device_memory, byte, n_bytes, rk_stream_native(stream)), "fill on the GPU");
}

/* Graphs of launches */

rk_status rk_stream_capture_begin(rk_stream *stream) {
    RK_TRY(kept_failure(stream->device));
    cudaError_t error = cudaStreamBeginCapture(rk_stream_native(stream), cudaStreamCaptureModeThreadLocal);
    return error == cudaSuccess ? RK_OK : cuda_error(error, "launches cannot be captured");
}

rk_status rk_stream_capture_end(rk_stream *stream, rk_launch_graph **out) {
    rk_launch_graph *graph;
    cudaGraph_t captured = NULL;
    cudaError_t error = cudaStreamEndCapture(rk_stream_native(stream), &captured);
    if (error != cudaSuccess) return cuda_error(error, "launches cannot be captured");
    rk_status status = rk_alloc(1, sizeof *graph, &graph);
    if (status == RK_OK) {
        error = cudaGraphInstantiate(&graph->native, captured, 0);
        if (error != cudaSuccess) {
            rk_free(graph);
            status = cuda_error(error, "a graph of launches cannot be made");
        }
    }
    (void)cudaGraphDestroy(captured);
    if (status != RK_OK) return status;
    *out = graph;
    return kept_failure(stream->device);
}

void rk_launch_graph_run(rk_launch_graph *graph, rk_stream *stream) {
    keep(stream, cudaGraphLaunch(graph->native, rk_stream_native(stream)), "launch of a graph");
}

void rk_launch_graph_free(rk_launch_graph *graph) {
    if (!graph) return;
    (void)cudaGraphExecDestroy(graph->native);
    rk_free(graph);
}
