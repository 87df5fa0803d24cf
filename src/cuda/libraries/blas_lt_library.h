/* cuBLASLt, loaded when a device is opened: it is a large library, which takes every program that is linked
 * to it a fifth of a second. */
#ifndef RK_CUDA_LIBRARIES_BLAS_LT_LIBRARY_H
#define RK_CUDA_LIBRARIES_BLAS_LT_LIBRARY_H

#include "cuda/platform.h"

#include <cublasLt.h>

extern "C" {
#include "base/error.h"
}

/* The functions of it that we call. X(name) */
#define RK_BLAS_LT_LIST(X)                  \
    X(cublasLtGetStatusString)              \
    X(cublasLtCreate)                       \
    X(cublasLtDestroy)                      \
    X(cublasLtMatmulDescCreate)             \
    X(cublasLtMatmulDescDestroy)            \
    X(cublasLtMatmulDescSetAttribute)       \
    X(cublasLtMatrixLayoutCreate)           \
    X(cublasLtMatrixLayoutDestroy)          \
    X(cublasLtMatrixLayoutSetAttribute)     \
    X(cublasLtMatmulPreferenceCreate)       \
    X(cublasLtMatmulPreferenceDestroy)      \
    X(cublasLtMatmulPreferenceSetAttribute) \
    X(cublasLtMatmulAlgoGetHeuristic)       \
    X(cublasLtMatmul)

typedef struct rk_blas_lt {
#define RK_BLAS_LT_FIELD(name) decltype(&::name) name;
    RK_BLAS_LT_LIST(RK_BLAS_LT_FIELD)
#undef RK_BLAS_LT_FIELD
} rk_blas_lt;

/* RK_UNSUPPORTED says where it was looked for. It stays loaded. */
rk_status rk_blas_lt_load(rk_blas_lt *lt);

#endif
