#include "cuda/test_blas.h"

#include "cuda/libraries/blas_multiply.h"

void test_multiply_plainly(rk_stream *stream, const rk_cuda_gemm_args *args) {
    rk_blas_operand a = {args->a, args->lda, args->stride_a}, b = {args->b, args->ldb, args->stride_b};
    rk_blas_multiply_plainly(stream, args, &a, &b);
}
