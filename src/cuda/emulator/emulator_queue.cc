#include "cuda/emulator/emulator_queue.h"

#include <string.h>

#include <algorithm>

#include "cuda/emulator/emulator.h"
#include "cuda/emulator/emulator_memory.h"
#include "cuda/emulator/emulator_order.h"

static std::vector<rk_emulator_stream *> streams;
static cudaError_t last_error;

cudaError_t rk_emulator_keep_error(cudaError_t error) {
    if (error != cudaSuccess) last_error = error;
    return error;
}

cudaError_t cudaGetLastError() {
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

void rk_emulator_queue_push(rk_emulator_stream *stream, rk_op op) {
    if (!stream->capture) {
        stream->work.push_back(std::move(op));
        return;
    }
    stream->capture->queues[stream->queue].push_back(std::move(op));
    stream->capture->clocks[stream->queue][stream->queue]++;
}

bool rk_emulator_queue_run_next(rk_queue *queue) {
    if (queue->empty() || (queue->front().waits && !queue->front().ticket->is_done)) return false;
    rk_op op = std::move(queue->front());
    queue->pop_front();
    if (op.run)
        op.run();
    else if (!op.waits)
        op.ticket->is_done = true;
    return true;
}

/* As little as it takes: one step of the stream, or of the one that it waits for. */
static void run_needed_operation(rk_emulator_stream *stream) {
    while (!rk_emulator_queue_run_next(&stream->work)) stream = stream->work.front().ticket->stream;
}

static bool run_any_operation(const rk_emulator_stream *except) {
    unsigned n = (unsigned)streams.size(), first = rk_emulator_random_below(n);
    for (unsigned i = 0; i < n; i++) {
        rk_emulator_stream *stream = streams[(first + i) % n];
        if (stream != except && rk_emulator_queue_run_next(&stream->work)) return true;
    }
    return false;
}

/* Works until `is_done`. The other streams stay as far behind as they may, run as far ahead as they may, or
 * something between. */
static void run_streams_until(rk_emulator_stream *stream, const std::function<bool()> &is_done) {
    enum { BEHIND, AHEAD, BETWEEN, N_WAYS };
    if (is_done()) return;
    rk_emulator_open_device_memory();
    unsigned way = rk_emulator_random_below(N_WAYS);
    while (way == AHEAD && run_any_operation(stream)) {
    }
    while (!is_done())
        if (way != BETWEEN || !run_any_operation(NULL)) run_needed_operation(stream);
    rk_emulator_close_device_memory();
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
    *stream = new rk_emulator_stream{{}, NULL, 0};
    streams.push_back(*stream);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    if (stream->capture) return rk_emulator_keep_error(cudaErrorStreamCaptureUnsupported);
    run_streams_until(stream, [stream] { return stream->work.empty(); });
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    if (stream->capture) return rk_emulator_keep_error(cudaErrorStreamCaptureUnsupported);
    cudaStreamSynchronize(stream);
    streams.erase(std::find(streams.begin(), streams.end(), stream));
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
    *event = new rk_emulator_event{NULL, NULL, {}};
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    event->ticket = std::make_shared<rk_ticket>(rk_ticket{false, stream});
    rk_emulator_queue_push(stream, {nullptr, event->ticket, false});
    event->capture = stream->capture;
    if (stream->capture) event->clock = stream->capture->clocks[stream->queue];
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    if (event->capture) return rk_emulator_keep_error(rk_emulator_capture_wait_event(stream, event));
    if (stream->capture) return rk_emulator_keep_error(cudaErrorStreamCaptureIsolation);
    if (event->ticket) rk_emulator_queue_push(stream, {nullptr, event->ticket, true});
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    if (event->capture) return rk_emulator_keep_error(cudaErrorCapturedEvent);
    std::shared_ptr<rk_ticket> ticket = event->ticket;
    if (ticket) run_streams_until(ticket->stream, [ticket] { return ticket->is_done; });
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n_bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    rk_emulator_check_range("copy to", to, n_bytes,
                            kind == cudaMemcpyDeviceToHost ? RK_MEMORY_PINNED : RK_MEMORY_DEVICE);
    rk_emulator_check_range("copy from", from, n_bytes,
                            kind == cudaMemcpyHostToDevice ? RK_MEMORY_PINNED : RK_MEMORY_DEVICE);
    rk_emulator_queue_push(stream, {[=] { memcpy(to, from, n_bytes); }, NULL, false});
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int byte, size_t n_bytes, cudaStream_t stream) {
    rk_emulator_check_range("fill", memory, n_bytes, RK_MEMORY_DEVICE);
    rk_emulator_queue_push(stream, {[=] { memset(memory, byte, n_bytes); }, NULL, false});
    return cudaSuccess;
}

void rk_emulator_queue_kernel(const rk_emulator_kernel &kernel, cudaStream_t stream,
                              std::function<void()> thread) {
    uint64_t n_threads = (uint64_t)kernel.threads.x * kernel.threads.y * kernel.threads.z;
    bool fits = n_threads >= 1 && n_threads <= 1024 && kernel.threads.z <= 64 &&
                kernel.blocks.x <= INT32_MAX && kernel.blocks.y <= 65535 && kernel.blocks.z <= 65535;
    if (!fits || kernel.shared_bytes > 48 << 10) {
        rk_emulator_keep_error(cudaErrorInvalidConfiguration);
        return;
    }
    rk_emulator_queue_push(stream,
                           {[kernel, thread] { rk_emulator_run_kernel(kernel, thread); }, NULL, false});
}
