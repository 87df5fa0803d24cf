/* Kernels of test_emulator: right ones, and one for each thing that must be caught. */
#ifndef RK_TEST_EMULATOR_H
#define RK_TEST_EMULATOR_H

#include "cuda/launch.h"

// clang-format off
#define TEST_EMULATOR_LIST(X)                                           \
    X(test_warp_functions, (rk_stream *stream, uint32_t *out))          \
    X(test_transpose, (rk_stream *stream, const float *in, float *out)) \
    X(test_ragged_block, (rk_stream *stream, uint32_t *out))            \
    X(test_dynamic_shared, (rk_stream *stream, uint32_t *out))          \
    X(test_early_return, (rk_stream *stream, uint32_t *out))            \
    X(test_divergent_shuffle, (rk_stream *stream, uint32_t *out))       \
    X(test_divergent_barrier, (rk_stream *stream, uint32_t *out))       \
    X(test_lane_left, (rk_stream *stream, uint32_t *out))               \
    X(test_part_of_a_warp, (rk_stream *stream, uint32_t *out))          \
    X(test_narrow_mask, (rk_stream *stream, uint32_t *out))             \
    X(test_missing_barrier, (rk_stream *stream, uint32_t *out))         \
    X(test_misaligned_number, (rk_stream *stream, uint32_t *out))       \
    X(test_misaligned_vector, (rk_stream *stream, uint32_t *out))       \
    X(test_pointer, (rk_stream *stream, const void *pointer))
// clang-format on
TEST_EMULATOR_LIST(RK_CUDA_PROTOTYPE)

#endif
