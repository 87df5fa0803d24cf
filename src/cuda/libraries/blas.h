/* Matrix products on the device: cuBLASLt in a CUDA build (blas_lt.cu), plain loops in the emulator. */
#ifndef RK_CUDA_LIBRARIES_BLAS_H
#define RK_CUDA_LIBRARIES_BLAS_H

#include "base/device_code.h"
#include "cuda/launch.h"

/* How f32 operands are multiplied. tf32 is never the default: f32 means f32. */
typedef enum rk_cuda_math { RK_CUDA_F32, RK_CUDA_TF32, RK_CUDA_BF16 } rk_cuda_math;

/* Row-major, as everywhere in this library:  c [m, n] = alpha * op(a) op(b) + beta * c, then + bias [n] on
 * each row (NULL: none), then max(.., 0) if relu.
 * op(a): a [m, k], or a^T of a [k, m] if a_transposed; likewise b. Leading dimensions count elements. batch >
 * 1: matrices `stride_*` elements apart. An operand of RK_CUDA_BF16 is rounded for the product, 6 bytes of
 * traffic a value, unless it is bf16 already: rk_cuda_round_bf16's, for one that is multiplied more than
 * once. */
typedef struct rk_cuda_gemm_args {
    int64_t m, n, k;
    const void *a, *b; /* f32; bf16 if a_rounded, b_rounded */
    float *c;
    int64_t lda, ldb, ldc;
    bool a_transposed, b_transposed, relu;
    float alpha, beta;
    const float *bias;
    int64_t batch, stride_a, stride_b, stride_c; /* batch 0: one */
    rk_cuda_math math;
    bool a_rounded, b_rounded; /* only of RK_CUDA_BF16 */
} rk_cuda_gemm_args;

/* The leading dimension of a matrix of bf16 or f32 whose rows begin at multiples of 16 bytes. cuBLASLt's fast
 * kernels also want so many rows, columns and terms: with zeros behind a row's cols values, the product may
 * count them as its own. */
RK_DEVICE_CODE static inline int64_t rk_cuda_aligned_ld(int64_t cols) {
    return (cols + 7) / 8 * 8;
}

// clang-format off
#define RK_CUDA_BLAS_LIST(X)                                                                        \
    X(rk_cuda_gemm, (rk_stream *stream, const rk_cuda_gemm_args *args))                             \
    X(rk_cuda_round_bf16,                                                                           \
      (rk_stream *stream, int64_t rows, int64_t cols, const float *from, int64_t ld, uint16_t *to))
// clang-format on
RK_CUDA_BLAS_LIST(RK_CUDA_PROTOTYPE)

#endif
