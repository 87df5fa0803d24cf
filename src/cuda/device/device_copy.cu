#include "cuda/device/device_copy.h"

#include "cuda/platform.h"

enum { THREADS = 256, PER_THREAD = 4 };

/* to[i] = from[i] for n_bytes, a multiple of 16, as both pointers are; 4 loads of 16 bytes are in batch
 * context a thread. */
__global__ static void copy_kernel(int64_t n, const uint4 *from, uint4 *to) {
    int64_t first = (int64_t)blockIdx.x * THREADS * PER_THREAD + threadIdx.x;
    uint4 values[PER_THREAD];
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++)
        if (first + i * THREADS < n) values[i] = __ldcs(&from[first + i * THREADS]);
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++)
        if (first + i * THREADS < n) __stcs(&to[first + i * THREADS], values[i]);
}

void rk_cuda_copy(rk_stream *stream, size_t n_bytes, const void *from, void *to) {
    int64_t n = (int64_t)(n_bytes / sizeof(uint4)), per_block = THREADS * PER_THREAD;
    RK_LAUNCH(copy_kernel, (unsigned)((n + per_block - 1) / per_block), THREADS, 0, stream, n,
              (const uint4 *)from, (uint4 *)to);
}
