/* The simplest kernel: what the card's memory can give, for bench/gpu to measure lookups against. */
#ifndef RK_CUDA_DEVICE_DEVICE_COPY_H
#define RK_CUDA_DEVICE_DEVICE_COPY_H

#include "cuda/launch.h"

// clang-format off
#define RK_CUDA_COPY_LIST(X) \
    X(rk_cuda_copy, (rk_stream *stream, size_t n_bytes, const void *from, void *to))
// clang-format on
RK_CUDA_COPY_LIST(RK_CUDA_PROTOTYPE)

#endif
