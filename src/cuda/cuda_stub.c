/* For builds without CUDA: there is no device, and so nothing else is ever called. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#include <stdlib.h>

#include "base/error.h"
#include "cuda/launch_list.h"

rk_status rk_device_open(int32_t number, rk_device **out) {
    return rk_error(
        RK_UNSUPPORTED,
        "this build has no CUDA\nhint: configure with -DRK_CUDA=on where nvcc is, or run with 'device: cpu'");
}
int32_t rk_device_count(void) {
    return 0;
}
/* NULL is fine for these. */
void rk_device_close(rk_device *device) {}
void rk_device_free(rk_device *device, void *memory) {}
void rk_device_free_host(rk_device *device, void *memory) {}
void rk_device_unpin(rk_device *device, void *memory) {}
void rk_stream_free(rk_stream *stream) {}
void rk_stream_event_free(rk_stream_event *event) {}
void rk_launch_graph_free(rk_launch_graph *graph) {}

/* X(what it returns, name, parameters) */
// clang-format off
#define NEVER_CALLED(X)                                                                                    \
    X(rk_status, rk_device_query, (rk_device *device, rk_device_info *out))                                \
    X(rk_status, rk_device_alloc, (rk_device *device, size_t n_bytes, void *out))                          \
    X(rk_status, rk_device_alloc_host, (rk_device *device, size_t n_bytes, void *out))                     \
    X(rk_status, rk_device_pin, (rk_device *device, void *memory, size_t n_bytes))                         \
    X(rk_status, rk_stream_create, (rk_device *device, rk_stream * *out))                                  \
    X(rk_device *, rk_stream_device, (const rk_stream *stream))                                            \
    X(rk_status, rk_stream_sync, (rk_stream *stream))                                                      \
    X(void, rk_stream_wait_for_stream, (rk_stream *stream, rk_stream *other))                              \
    X(rk_status, rk_stream_event_create, (rk_device *device, rk_stream_event * *out))                      \
    X(void, rk_stream_record_event, (rk_stream *stream, rk_stream_event *event))                           \
    X(void, rk_stream_wait_event, (rk_stream *stream, rk_stream_event *event))                             \
    X(rk_status, rk_stream_event_sync, (rk_stream_event *event))                                           \
    X(void, rk_stream_upload, (rk_stream *stream, void *to_device, const void *from_host, size_t n_bytes)) \
    X(void, rk_stream_download,                                                                            \
      (rk_stream *stream, void *to_host, const void *from_device, size_t n_bytes))                         \
    X(void, rk_stream_copy, (rk_stream *stream, void *to_device, const void *from_device, size_t n_bytes)) \
    X(void, rk_stream_fill, (rk_stream *stream, void *device_memory, int byte, size_t n_bytes))            \
    X(rk_status, rk_device_upload,                                                                         \
      (rk_device *device, void *to_device, const void *from_host, size_t n_bytes))                         \
    X(rk_status, rk_device_download,                                                                       \
      (rk_device *device, void *to_host, const void *from_device, size_t n_bytes))                         \
    X(rk_status, rk_stream_capture_begin, (rk_stream *stream))                                             \
    X(rk_status, rk_stream_capture_end, (rk_stream *stream, rk_launch_graph * *out))                       \
    X(void, rk_launch_graph_run, (rk_launch_graph *graph, rk_stream *stream))                              \
    X(size_t, rk_cuda_sort_scratch_bytes, (rk_device *device, int64_t n))
// clang-format on
#define STUB(result, name, parameters) \
    result name parameters {           \
        abort();                       \
    }
NEVER_CALLED(STUB)
#define LAUNCH_STUB(name, parameters) STUB(void, name, parameters)
RK_CUDA_LAUNCH_LIST(LAUNCH_STUB)
