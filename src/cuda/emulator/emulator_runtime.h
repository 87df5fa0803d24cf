/* The functions of the CUDA runtime that src/cuda uses, with their own names and meanings, over queues that
 * are worked off when somebody waits (emulator_queue.cc) and memory that only that work can reach
 * (emulator_memory.cc). */
#ifndef RK_CUDA_EMULATOR_EMULATOR_RUNTIME_H
#define RK_CUDA_EMULATOR_EMULATOR_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#define RK_EMULATOR_ERRORS(X)                                                                          \
    X(cudaSuccess, 0, "no error")                                                                      \
    X(cudaErrorInvalidValue, 1, "invalid argument")                                                    \
    X(cudaErrorMemoryAllocation, 2, "out of memory")                                                   \
    X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                              \
    X(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                                    \
    X(cudaErrorInvalidDevice, 101, "invalid device ordinal")                                           \
    X(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing")      \
    X(cudaErrorStreamCaptureUnjoined, 904, "capturing stream has unjoined work")                       \
    X(cudaErrorStreamCaptureIsolation, 905, "dependency created on uncaptured work in another stream") \
    X(cudaErrorCapturedEvent, 907, "operation not permitted on an event last recorded in a capturing stream")

enum cudaError_t {
#define RK_EMULATOR_ERROR(name, number, text) name = number,
    RK_EMULATOR_ERRORS(RK_EMULATOR_ERROR)
#undef RK_EMULATOR_ERROR
};

typedef struct rk_emulator_stream *cudaStream_t;
typedef struct rk_emulator_event *cudaEvent_t;
typedef struct rk_emulator_graph *cudaGraph_t;
typedef struct rk_emulator_graph *cudaGraphExec_t;

enum {
    cudaStreamNonBlocking = 1,
    cudaEventDisableTiming = 2,
    cudaHostAllocDefault = 0,
    cudaHostRegisterPortable = 1,
    cudaHostRegisterMapped = 2
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal };

struct cudaDeviceProp {
    char name[256];
    int major, minor, multiProcessorCount;
};

const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);

cudaError_t cudaMalloc(void **memory, size_t n_bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaHostAlloc(void **memory, size_t n_bytes, unsigned flags);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaHostRegister(void *memory, size_t n_bytes, unsigned flags);
cudaError_t cudaHostUnregister(void *memory);
cudaError_t cudaHostGetDevicePointer(void **device_pointer, void *memory, unsigned flags);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n_bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *memory, int byte, size_t n_bytes, cudaStream_t stream);

enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

#endif
