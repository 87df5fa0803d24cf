/* Graphs of launches: what streams are given while they are captured, kept to be run again. */
#include <stdlib.h>

#include "cuda/emulator/emulator.h"
#include "cuda/emulator/emulator_order.h"
#include "cuda/emulator/emulator_queue.h"

int rk_n_captures;

struct rk_emulator_graph {
    std::vector<rk_queue> queues;
};

/* Another stream's part of the capture. */
static void join_capture(const std::shared_ptr<rk_capture> &capture, rk_emulator_stream *stream) {
    stream->queue = capture->queues.size();
    stream->capture = capture;
    capture->queues.emplace_back();
    capture->streams.push_back(stream);
    capture->clocks.emplace_back();
    for (auto &clock : capture->clocks) clock.resize(capture->queues.size());
}

cudaError_t rk_emulator_capture_wait_event(rk_emulator_stream *stream, rk_emulator_event *event) {
    if (event->capture->is_over) return cudaErrorCapturedEvent;
    if (stream->capture && stream->capture != event->capture) return cudaErrorStreamCaptureIsolation;
    if (!stream->capture) join_capture(event->capture, stream);
    rk_emulator_queue_push(stream, {nullptr, event->ticket, true});
    std::vector<size_t> &clock = stream->capture->clocks[stream->queue];
    for (size_t i = 0; i < event->clock.size(); i++)
        if (clock[i] < event->clock[i]) clock[i] = event->clock[i];
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
    *status = stream->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    if (stream->capture) return rk_emulator_keep_error(cudaErrorStreamCaptureUnsupported);
    join_capture(std::make_shared<rk_capture>(), stream);
    rk_n_captures++;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    std::shared_ptr<rk_capture> capture = stream->capture;
    if (!capture || stream->queue != 0) return rk_emulator_keep_error(cudaErrorInvalidValue);
    capture->is_over = true;
    rk_n_captures--;
    for (rk_emulator_stream *each : capture->streams) each->capture = NULL;
    for (size_t i = 0; i < capture->queues.size(); i++)
        if (capture->clocks[0][i] < capture->clocks[i][i])
            return rk_emulator_keep_error(cudaErrorStreamCaptureUnjoined);
    *graph = new rk_emulator_graph{std::move(capture->queues)};
    return cudaSuccess;
}

/* The queues in any order that their waits allow. */
static void run_launch_graph(const rk_emulator_graph *graph) {
    std::vector<rk_queue> queues = graph->queues;
    size_t n_left = 0;
    for (const rk_queue &queue : queues)
        for (const rk_op &op : queue) {
            n_left++;
            if (op.ticket) op.ticket->is_done = false;
        }
    while (n_left)
        n_left -= rk_emulator_queue_run_next(&queues[rk_emulator_random_below((unsigned)queues.size())]);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long) {
    *exec = new rk_emulator_graph(*graph);
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    std::shared_ptr<rk_emulator_graph> kept = std::make_shared<rk_emulator_graph>(*exec);
    rk_emulator_queue_push(stream, {[kept] { run_launch_graph(kept.get()); }, NULL, false});
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    delete exec;
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error) {
    switch (error) {
#define RK_EMULATOR_ERROR(name, number, text) \
    case name:                                \
        return text;
        RK_EMULATOR_ERRORS(RK_EMULATOR_ERROR)
#undef RK_EMULATOR_ERROR
    }
    return "unknown error";
}

/* RK_EMULATOR_DEVICES: how many there are; 1 where it is not set. */
cudaError_t cudaGetDeviceCount(int *count) {
    const char *text = getenv("RK_EMULATOR_DEVICES");
    *count = text ? atoi(text) : 1;
    return rk_emulator_keep_error(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int device) {
    int n;
    cudaError_t error = cudaGetDeviceCount(&n);
    return rk_emulator_keep_error(error != cudaSuccess        ? error
                                  : device >= 0 && device < n ? cudaSuccess
                                                              : cudaErrorInvalidDevice);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int) {
    *properties = {"emulated GPU", 9, 0, 4};
    return cudaSuccess;
}
