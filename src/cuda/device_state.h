/* Devices and streams as this layer's own files see them. */
#ifndef RK_CUDA_DEVICE_STATE_H
#define RK_CUDA_DEVICE_STATE_H

#include "cuda/platform.h"

extern "C" {
#include "base/error.h"
#include "base/memory.h"
}

typedef struct rk_blas rk_blas; /* blas_lt.cu's, or nothing */

struct rk_device {
    int32_t number;
    rk_device_info info;
    rk_stream *stream; /* the device's own: fills of new memory, rk_device_write and _read */
    void *staging;     /* pinned, STAGING_BYTES */
    rk_blas *blas;
    rk_status failure; /* the first; RK_OK: none */
    char reason[512];
};

struct rk_stream {
    rk_device *device;
    cudaStream_t native;
    cudaEvent_t reached; /* for rk_stream_wait */
};

/* Keeps a failure of the device, if `error` is one and the first. */
void rk_device_keep_failure(rk_device *device, cudaError_t error, const char *what);
/* Keeps that something else failed. */
void rk_device_keep_reason(rk_device *device, const char *reason);

/* blas_lt.cu, blas_emulated.cc. */
rk_status rk_blas_create(rk_device *device, rk_blas **out);
void rk_blas_free(rk_blas *blas);

#endif
