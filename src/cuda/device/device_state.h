/* Devices and streams as this layer's own files see them. */
#ifndef RK_CUDA_DEVICE_DEVICE_STATE_H
#define RK_CUDA_DEVICE_DEVICE_STATE_H

#include "cuda/platform.h"

extern "C" {
#include "base/error.h"
#include "base/memory.h"
}

typedef struct rk_blas rk_blas; /* blas_lt.cu's or the emulator's */

/* Device memory of a stream's own, for what lives no longer than one function's work. */
typedef enum rk_stream_scratch_kind {
    RK_SCRATCH_A,
    RK_SCRATCH_B,
    RK_SCRATCH_WORKSPACE,
    RK_SCRATCH_KINDS
} rk_stream_scratch_kind;
typedef struct rk_device_scratch {
    struct rk_device_scratch
        *before; /* smaller ones stay until the stream ends, since graphs of launches may hold them */
    void *memory;
    size_t n_bytes;
} rk_device_scratch;

struct rk_device {
    int32_t number;
    rk_device_info info;
    rk_stream *stream; /* the device's own: fills of new memory, rk_device_upload and _read */
    void *staging;     /* pinned, STAGING_BYTES */
    rk_blas *blas;
    rk_status failure; /* the first; RK_OK: none */
    char reason[512];
};

struct rk_stream {
    rk_device *device;
    cudaStream_t native;
    cudaEvent_t reached; /* for rk_stream_wait_for_stream */
    rk_device_scratch *scratch[RK_SCRATCH_KINDS];
};

/* At least n_bytes, aligned to 256. NULL where it cannot be had (also while launches are captured: the same
 * work must have been done once before), kept as the device's failure. */
void *rk_stream_scratch(rk_stream *stream, rk_stream_scratch_kind kind, size_t n_bytes);
void rk_scratch_free(rk_device *device, rk_device_scratch *scratch);
bool rk_stream_is_captured(const rk_stream *stream);

void rk_device_make_current(const rk_device *device); /* makes it the thread's */
rk_status rk_cuda_error(cudaError_t error, const char *what);

/* Keeps a failure of the device, if `error` is one and the first. */
void rk_device_record_failure(rk_device *device, cudaError_t error, const char *what);
/* Keeps that something else failed. */
void rk_device_record_failure_text(rk_device *device, const char *reason);
rk_status rk_device_failure(const rk_device *device);

/* blas_lt.cu, emulator/blas_emulated.cc. */
rk_status rk_blas_create(rk_device *device, rk_blas **out);
void rk_blas_free(rk_blas *blas);

#endif
