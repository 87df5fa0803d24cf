/* The product itself, of operands as they are to be multiplied: cuBLASLt (blas_lt.cu) or plain loops
 * (emulator/blas_emulated.cc). */
#ifndef RK_CUDA_LIBRARIES_BLAS_MULTIPLY_H
#define RK_CUDA_LIBRARIES_BLAS_MULTIPLY_H

#include "cuda/libraries/blas.h"
#include "cuda/device/device_state.h"

typedef struct rk_blas_operand {
    const void *values; /* bf16 if the product's math is RK_CUDA_BF16, else f32 */
    int64_t ld, stride;
} rk_blas_operand;

/* All that the choice of an algorithm hangs on. Compared as bytes. */
typedef struct rk_blas_shape {
    int64_t m, n, k, lda, ldb, ldc, batch, stride_a, stride_b, stride_c;
    int32_t a_transposed, b_transposed, relu, bias, math, reads_c;
    uint32_t align_a, align_b, align_c, unused;
} rk_blas_shape;
rk_blas_shape rk_blas_shape_of(const rk_cuda_gemm_args *args, const rk_blas_operand *a,
                               const rk_blas_operand *b);
/* RK_INTERNAL while the stream is captured, when CUDA 13.3's cuBLASLt fails to choose
 * (https://github.com/mudler/vllm.cpp/issues/1732): a shape must have been multiplied once before. */
rk_status rk_blas_check_not_captured(const rk_stream *stream);

/* args->a, lda, stride_a and a_rounded, and b's, are not read; batch is 1 or more, m and n too. */
rk_status rk_blas_multiply(rk_stream *stream, const rk_cuda_gemm_args *args, const rk_blas_operand *a,
                           const rk_blas_operand *b);
/* The same by plain loops, for what cuBLASLt has no algorithm for; tf32 is f32 there. */
void rk_blas_multiply_plainly(rk_stream *stream, const rk_cuda_gemm_args *args, const rk_blas_operand *a,
                              const rk_blas_operand *b);

#endif
