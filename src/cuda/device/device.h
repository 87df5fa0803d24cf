/* A GPU as the layers above see it: its memory, its streams, copies, and graphs of launches. Plain C; no CUDA
 * header is needed above this layer.
 *
 * Three builds of one signature: CUDA (device.cu, nvcc), the emulator (tests: the same .cu files compiled for
 * the CPU, docs/gpu.md) and none (cuda_stub.c), where rk_device_open fails with RK_UNSUPPORTED and nothing
 * else can be called.
 *
 * Work is given to streams and done later, in order within a stream, in any order between streams but for
 * rk_stream_wait_for_stream and rk_stream_wait_event. Launches and copies return nothing: the first failure
 * of a device is kept and rk_stream_sync returns it (and every later one), so a step is checked once.
 *
 * Thread rule: one thread at a time per device. */
#ifndef RK_CUDA_DEVICE_DEVICE_H
#define RK_CUDA_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <reckon/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rk_device rk_device;
typedef struct rk_stream rk_stream;
typedef struct rk_stream_event rk_stream_event; /* a place in a stream's work */
typedef struct rk_launch_graph rk_launch_graph;

typedef struct rk_device_info {
    char name[256];
    char id[16];          /* of this GPU in all the world, whatever number a process knows it by */
    int32_t n_processors; /* streaming multiprocessors */
    int32_t major, minor; /* compute capability */
    uint64_t memory_bytes, free_bytes;
    bool is_emulated;
} rk_device_info;

int32_t rk_device_count(void); /* 0 where none can be used */
/* number: 0 for the first GPU. Errors: RK_UNSUPPORTED (a build without CUDA, no GPU, no driver; with a hint),
 * RK_INVALID_ARGUMENT (no such number). */
rk_status rk_device_open(int32_t number, rk_device **out);
void rk_device_close(
    rk_device *device); /* waits for its work; its streams and memory must have been freed; NULL is fine */
rk_status rk_device_query(rk_device *device, rk_device_info *out);

/* Memory of the device, zeroed; RK_NO_MEMORY names how much was asked for and how much is free. Aligned to
 * 256 bytes. */
rk_status rk_device_alloc(rk_device *device, size_t n_bytes,
                          void *out); /* out: pointer to any object pointer */
void rk_device_free(rk_device *device,
                    void *memory); /* not while work that uses it is under way; NULL is fine */
/* Pinned memory of the host, zeroed, that copies and kernels reach. */
rk_status rk_device_alloc_host(rk_device *device, size_t n_bytes, void *out); /* likewise */
void rk_device_free_host(rk_device *device, void *memory);
/* Pins memory that the host has already, whole pages of it or not, so that copies and kernels reach it at the
 * same address; unpin before it is freed. */
rk_status rk_device_pin(rk_device *device, void *memory, size_t n_bytes);
void rk_device_unpin(rk_device *device,
                     void *memory); /* not while work that uses it is under way; NULL is fine */

rk_status rk_stream_create(rk_device *device, rk_stream **out);
void rk_stream_free(rk_stream *stream);
rk_device *rk_stream_device(const rk_stream *stream);
int32_t rk_stream_n_processors(const rk_stream *stream); /* of its device; of device code alone */
rk_status rk_stream_sync(rk_stream *stream); /* wait for all of its work; the device's first failure */

/* What `stream` is given from now on begins after all that `other` has been given so far. */
void rk_stream_wait_for_stream(rk_stream *stream, rk_stream *other);
/* The same in two steps: record an event now, wait for it later, or on the host. An event may be recorded
 * again; one never set is passed at once. */
rk_status rk_stream_event_create(rk_device *device, rk_stream_event **out);
void rk_stream_event_free(rk_stream_event *event);
void rk_stream_record_event(rk_stream *stream, rk_stream_event *event);
void rk_stream_wait_event(rk_stream *stream, rk_stream_event *event);
rk_status rk_stream_event_sync(rk_stream_event *event);

/* Copies. The host's side must be pinned (rk_device_alloc_host) and stay as it is until the stream has done
 * the copy. */
void rk_stream_upload(rk_stream *stream, void *to_device, const void *from_host, size_t n_bytes);
void rk_stream_download(rk_stream *stream, void *to_host, const void *from_device, size_t n_bytes);
void rk_stream_copy(rk_stream *stream, void *to_device, const void *from_device, size_t n_bytes);
void rk_stream_fill(rk_stream *stream, void *device_memory, int byte, size_t n_bytes);
/* Ordinary (not pinned) memory of the host, through a pinned buffer of the device's; back when it is done.
 * For what is not in a step. */
rk_status rk_device_upload(rk_device *device, void *to_device, const void *from_host, size_t n_bytes);
rk_status rk_device_download(rk_device *device, void *to_host, const void *from_device, size_t n_bytes);

/* What the stream is given between begin and end is kept instead of done, and can then be run again and again
 * with one call. Arguments are kept as they are: what changes from run to run must be in the device's memory.
 * Other streams that wait for this one and that this one waits for in the end take part; nothing in it may
 * wait for work that is not, nothing else for an event that is recorded in it, and no memory is allocated
 * meanwhile. */
rk_status rk_stream_capture_begin(rk_stream *stream);
rk_status rk_stream_capture_end(rk_stream *stream, rk_launch_graph **out);
void rk_launch_graph_run(rk_launch_graph *graph, rk_stream *stream);
void rk_launch_graph_free(rk_launch_graph *graph);

#ifdef __cplusplus
}
#endif
#endif
