/* Kernels of test_device. */
#ifndef RK_TEST_DEVICE_H
#define RK_TEST_DEVICE_H

#include "cuda/launch.h"

/* add_one: x[i] += 1. reverse_sums: for each block of 64, out[i] = the sum of the block's in[j] for j >= i,
 * through shared memory and shuffles. too_many_threads: a launch that cannot be. */
// clang-format off
#define TEST_DEVICE_LIST(X)                                                          \
    X(test_add_one, (rk_stream *stream, int64_t n, float *x))                        \
    X(test_suffix_sums, (rk_stream *stream, int64_t n, const float *in, float *out)) \
    X(test_too_many_threads, (rk_stream *stream, float *x))
// clang-format on
TEST_DEVICE_LIST(RK_CUDA_PROTOTYPE)

#endif
