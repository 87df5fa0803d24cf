#include "cuda/platform.h"

#include "cuda/test_emulator.h"

enum { WORDS = 8 }; /* a thread's results */

__global__ static void warp_functions(uint32_t *out) {
    uint32_t lane = threadIdx.x % RK_WARP, value = 100 * (threadIdx.x / RK_WARP) + lane;
    uint32_t *to = out + WORDS * (blockIdx.x * blockDim.x + threadIdx.x);
    to[0] = __shfl_sync(RK_FULL_WARP, value, 5);
    to[1] = __shfl_xor_sync(RK_FULL_WARP, value, 3);
    to[2] = __shfl_down_sync(RK_FULL_WARP, value, 4);
    to[3] = __shfl_up_sync(RK_FULL_WARP, value, 4);
    to[4] = __ballot_sync(RK_FULL_WARP, lane % 3 == 0);
    to[5] = (uint32_t)(__any_sync(RK_FULL_WARP, lane == 7) + 2 * __all_sync(RK_FULL_WARP, lane < 31));
    to[6] = __shfl_sync(RK_FULL_WARP, value, 1, 8);
    to[7] = (uint32_t)(__shfl_xor_sync(RK_FULL_WARP, (double)value, 16) * 2);
}
void test_warp_functions(rk_stream *stream, uint32_t *out) {
    RK_LAUNCH(warp_functions, 2, 64, 0, stream, out);
}

enum { TILE = 16 };
__global__ static void transpose(const float *in, float *out) {
    RK_SHARED(float, tile, TILE *(TILE + 1));
    tile[threadIdx.y * (TILE + 1) + threadIdx.x] =
        in[(blockIdx.y * TILE + threadIdx.y) * gridDim.x * TILE + blockIdx.x * TILE + threadIdx.x];
    __syncthreads();
    out[(blockIdx.x * TILE + threadIdx.y) * gridDim.y * TILE + blockIdx.y * TILE + threadIdx.x] =
        tile[threadIdx.x * (TILE + 1) + threadIdx.y];
}
void test_transpose(rk_stream *stream, const float *in, float *out) {
    RK_LAUNCH(transpose, dim3(3, 2), dim3(TILE, TILE), 0, stream, in, out);
}

/* A block that is not whole warps, with barriers in a loop. */
__global__ static void ragged_block(uint32_t *out) {
    RK_SHARED(uint32_t, turns, 45);
    turns[threadIdx.x] = threadIdx.x;
    for (int i = 0; i < 10; i++) {
        __syncthreads();
        uint32_t next = turns[(threadIdx.x + 1) % blockDim.x];
        __syncthreads();
        turns[threadIdx.x] = next;
    }
    out[threadIdx.x] = turns[threadIdx.x];
}
void test_ragged_block(rk_stream *stream, uint32_t *out) {
    RK_LAUNCH(ragged_block, 1, 45, 0, stream, out);
}

template <int N>
__global__ static void dynamic_shared(uint32_t *out) {
    RK_SHARED_DYNAMIC(uint32_t, values);
    values[threadIdx.x] = threadIdx.x * N;
    __syncthreads();
    atomicAdd(&out[0], values[blockDim.x - 1 - threadIdx.x]);
}
void test_dynamic_shared(rk_stream *stream, uint32_t *out) {
    RK_LAUNCH((dynamic_shared<3>), 4, 100, 100 * sizeof(uint32_t), stream, out);
}

__global__ static void early_return(uint32_t *out) {
    if (threadIdx.x == 70) return;
    __syncthreads();
    out[threadIdx.x] = 1;
}
void test_early_return(rk_stream *stream, uint32_t *out) {
    RK_LAUNCH(early_return, 1, 96, 0, stream, out);
}

__global__ static void divergent_shuffle(uint32_t *out) {
    if (threadIdx.x < 3)
        out[threadIdx.x] = __shfl_sync(RK_FULL_WARP, threadIdx.x, 0);
    else
        out[threadIdx.x] = __shfl_sync(RK_FULL_WARP, threadIdx.x, 1);
}
void test_divergent_shuffle(rk_stream *stream, uint32_t *out) {
    RK_LAUNCH(divergent_shuffle, 1, 32, 0, stream, out);
}

__global__ static void divergent_barrier(uint32_t *out) {
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
    out[threadIdx.x] = 1;
}
void test_divergent_barrier(rk_stream *stream, uint32_t *out) {
    RK_LAUNCH(divergent_barrier, 1, 64, 0, stream, out);
}

__global__ static void lane_left(uint32_t *out) {
    if (threadIdx.x == 40) return;
    __syncwarp();
    out[threadIdx.x] = 1;
}
void test_lane_left(rk_stream *stream, uint32_t *out) {
    RK_LAUNCH(lane_left, 1, 64, 0, stream, out);
}

__global__ static void part_of_a_warp(uint32_t *out) {
    out[threadIdx.x] = __ballot_sync(RK_FULL_WARP, 1);
}
void test_part_of_a_warp(rk_stream *stream, uint32_t *out) {
    RK_LAUNCH(part_of_a_warp, 1, 40, 0, stream, out);
}

__global__ static void narrow_mask(uint32_t *out) {
    out[threadIdx.x] = __ballot_sync(0xFFFF, 1);
}
void test_narrow_mask(rk_stream *stream, uint32_t *out) {
    RK_LAUNCH(narrow_mask, 1, 32, 0, stream, out);
}

/* Each thread reads what its neighbours write, with nothing between: wrong in one order of threads or the
 * other. */
__global__ static void missing_barrier(uint32_t *out) {
    RK_SHARED(uint32_t, values, 64);
    values[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = values[threadIdx.x ? threadIdx.x - 1 : 0];
}
void test_missing_barrier(rk_stream *stream, uint32_t *out) {
    RK_LAUNCH(missing_barrier, 1, 64, 0, stream, out);
}

__global__ static void pointer_only(const void *pointer) {
    (void)pointer;
}
void test_pointer(rk_stream *stream, const void *pointer) {
    RK_LAUNCH(pointer_only, 1, 1, 0, stream, pointer);
}

__global__ static void misaligned_number(uint32_t *out) {
    *(uint64_t *)(out + 1) = 1;
}
void test_misaligned_number(rk_stream *stream, uint32_t *out) {
    RK_LAUNCH(misaligned_number, 1, 1, 0, stream, out);
}
__global__ static void misaligned_vector(uint32_t *out) {
    *(uint2 *)(out + 1) = make_uint2(1, 2);
}
void test_misaligned_vector(rk_stream *stream, uint32_t *out) {
    RK_LAUNCH(misaligned_vector, 1, 1, 0, stream, out);
}
