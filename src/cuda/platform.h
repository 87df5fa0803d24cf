/* What every .cu file includes first: CUDA itself under nvcc, its stand-in on the CPU (emulator/emulator.h)
 * under a plain C++ compiler.
 *
 * Kernels are `__global__ static void`, their functions `__device__ static inline`. No kernel returns before
 * a barrier or a warp function that the rest of its block or warp comes to. Headers of the C library are
 * included inside `extern "C" {}`, after this one. */
#ifndef RK_CUDA_PLATFORM_H
#define RK_CUDA_PLATFORM_H

/* C's own headers first, so that `extern "C" { #include ... }` around the library's does not reach them. */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include "cuda/emulator/emulator.h"
#endif

#include "base/device_code.h"
#include "cuda/launch.h"

#define RK_FULL_WARP 0xFFFFFFFFu /* the one mask that warp functions are given */
enum { RK_WARP = 32 };

/* A stream's CUDA stream; its device is made the thread's. */
cudaStream_t rk_stream_native(rk_stream *stream);
/* Keeps a launch's failure, if it had one, as the device's. */
void rk_stream_check_launch(rk_stream *stream, const char *kernel);

static inline bool rk_grid_has_blocks(dim3 blocks) {
    return blocks.x && blocks.y && blocks.z;
}

/* RK_LAUNCH(kernel, blocks, threads, shared_bytes, stream, arguments...): blocks and threads are numbers or
 * dim3; without blocks nothing is done. A template's instance stands in parentheses: RK_LAUNCH((kernel<4,
 * float>), ...). RK_SHARED(type, name, count): inside a kernel or its functions, an array of the block's;
 * count is a constant. RK_SHARED_DYNAMIC(type, name): a pointer to the shared_bytes of the launch. */
#ifdef __CUDACC__
#define RK_LAUNCH(kernel, blocks, threads, shared_bytes, stream, ...)                           \
    do {                                                                                        \
        if (!rk_grid_has_blocks(blocks)) break;                                                 \
        kernel<<<(blocks), (threads), (shared_bytes), rk_stream_native(stream)>>>(__VA_ARGS__); \
        rk_stream_check_launch((stream), #kernel);                                              \
    } while (0)
#define RK_SHARED(type, name, count) __shared__ type name[count]
#define RK_SHARED_DYNAMIC(type, name)                                \
    extern __shared__ __align__(16) unsigned char rk_shared_bytes[]; \
    type *name = (type *)rk_shared_bytes
#else
#define RK_LAUNCH(kernel, blocks, threads, shared_bytes, stream, ...)                                      \
    do {                                                                                                   \
        if (!rk_grid_has_blocks(blocks)) break;                                                            \
        rk_emulator_launch(#kernel, (blocks), (threads), (shared_bytes), rk_stream_native(stream), kernel, \
                           __VA_ARGS__);                                                                   \
        rk_stream_check_launch((stream), #kernel);                                                         \
    } while (0)
#define RK_SHARED(type, name, count)                        \
    static rk_emulator_shared rk_shared_##name = {0, NULL}; \
    type(&name)[count] = *(type(*)[count])rk_emulator_shared_array(&rk_shared_##name, sizeof(type[count]))
#define RK_SHARED_DYNAMIC(type, name) type *name = (type *)rk_emulator_dynamic_shared_memory()
#endif

#endif
