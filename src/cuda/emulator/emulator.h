/* CUDA's language and the few functions of its runtime that src/cuda uses, on the CPU: for tests, on machines
 * without a GPU.
 *
 * What it is strict about, so that tests find it: warp functions at which not all 32 lanes arrive, threads
 * that leave before a barrier, shared memory and new device memory that is read before it is written (it
 * holds garbage), kernel arguments that point to memory of the host, host code that touches device memory,
 * and, since streams are worked off late and in an order drawn from RK_EMULATOR_SEED, waits that are missing.
 * Threads of a block run one after the other between barriers, forwards or backwards. */
#ifndef RK_CUDA_EMULATOR_EMULATOR_H
#define RK_CUDA_EMULATOR_EMULATOR_H

#ifndef __cplusplus
#error "the emulator is C++; C code includes cuda/device/device.h"
#endif

#include <functional>
#include <tuple>

#include "cuda/emulator/emulator_runtime.h"
#include "cuda/emulator/emulator_types.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

/* Where the thread that runs stands. */
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

/* Says what is wrong, in which kernel, block and thread, and aborts. */
[[noreturn]] void rk_emulator_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct rk_emulator_kernel {
    const char *name;
    dim3 blocks, threads;
    size_t shared_bytes;
};
/* Queues a kernel; `thread` runs one thread of it. */
void rk_emulator_queue_kernel(const rk_emulator_kernel &kernel, cudaStream_t stream,
                              std::function<void()> thread);
/* Runs all blocks (emulator_block.cc). */
void rk_emulator_run_kernel(const rk_emulator_kernel &kernel, const std::function<void()> &thread);

void rk_emulator_check_pointer(const char *kernel, const void *pointer);
template <typename T>
static inline void rk_emulator_check_argument(const char *kernel, T *pointer) {
    rk_emulator_check_pointer(kernel, (const void *)pointer);
}
template <typename T>
static inline void rk_emulator_check_argument(const char *, const T &) {}

template <typename T>
struct rk_emulator_same {
    typedef T type;
};

/* The arguments are converted to the kernel's parameters at once, as a launch does. */
template <typename... P>
void rk_emulator_launch(const char *name, dim3 blocks, dim3 threads, size_t shared_bytes, cudaStream_t stream,
                        void (*kernel)(P...), typename rk_emulator_same<P>::type... arguments) {
    (rk_emulator_check_argument(name, arguments), ...);
    std::tuple<P...> kept(arguments...);
    rk_emulator_queue_kernel({name, blocks, threads, shared_bytes}, stream,
                             [kernel, kept] { std::apply(kernel, kept); });
}

/* An array in a block's shared memory: found by the place in the code, new for each block. */
struct rk_emulator_shared {
    uint64_t block;
    void *memory;
};
extern uint64_t rk_emulator_block; /* counts all blocks ever begun, from 1 */
void *rk_emulator_new_shared_array(rk_emulator_shared *shared, size_t n_bytes);
static inline void *rk_emulator_shared_array(rk_emulator_shared *shared, size_t n_bytes) {
    return shared->block == rk_emulator_block ? shared->memory
                                              : rk_emulator_new_shared_array(shared, n_bytes);
}
void *rk_emulator_dynamic_shared_memory();

/* Where in the code a barrier or warp function stands; all threads must come to the same one. */
struct rk_emulator_place {
    const char *what, *file;
    int line;
};
void rk_emulator_barrier(rk_emulator_place place);
/* Waits for all lanes of the warp; the values that they brought. */
const uint64_t *rk_emulator_warp_exchange(rk_emulator_place place, unsigned mask, uint64_t value);
static inline int rk_emulator_lane() {
    return (int)((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32);
}

#include "cuda/emulator/emulator_atomics.h"
#include "cuda/emulator/emulator_intrinsics.h"
#include "cuda/emulator/emulator_warp.h"

#endif
