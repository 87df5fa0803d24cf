/* The products that are cuBLASLt's only where it has an algorithm, by plain loops. */
#ifndef RK_TEST_BLAS_H
#define RK_TEST_BLAS_H

#include "cuda/libraries/blas.h"

#ifdef __cplusplus
extern "C"
#endif
    void
    test_multiply_plainly(rk_stream *stream, const rk_cuda_gemm_args *args); /* of f32; batch 1 or more */

#endif
