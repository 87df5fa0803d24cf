/* Products by plain loops, a thread a value of c: slow, and there for any shape. */
#include "cuda/blas_multiply.h"

extern "C" {
#include "base/float16.h"
}

enum { THREADS = 256 };

__device__ static inline float value_at(const rk_blas_operand &x, bool is_bf16, int64_t i) {
    return is_bf16 ? rk_bf16_to_f32(((const uint16_t *)x.values)[i]) : ((const float *)x.values)[i];
}

__global__ static void multiply(rk_cuda_gemm_args g, rk_blas_operand a, rk_blas_operand b) {
    int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x, matrix = at / (g.m * g.n), i = at / g.n % g.m, j = at % g.n;
    if (matrix >= g.batch) return;
    bool is_bf16 = g.math == RK_CUDA_BF16;
    int64_t left = matrix * a.stride + i * (g.a_transposed ? 1 : a.ld), left_step = g.a_transposed ? a.ld : 1;
    int64_t right = matrix * b.stride + j * (g.b_transposed ? b.ld : 1), right_step = g.b_transposed ? 1 : b.ld;
    float sum = 0, *to = &g.c[matrix * g.stride_c + i * g.ldc + j];
    for (int64_t k = 0; k < g.k; k++) sum = fmaf(value_at(a, is_bf16, left + k * left_step), value_at(b, is_bf16, right + k * right_step), sum);
    sum *= g.alpha;
    if (g.beta != 0) sum += g.beta * *to;
    if (g.bias) sum += g.bias[j];
    *to = g.relu && sum <= 0 ? 0 : sum;
}

void rk_blas_multiply_plainly(rk_stream *stream, const rk_cuda_gemm_args *args, const rk_blas_operand *a, const rk_blas_operand *b) {
    RK_LAUNCH(multiply, (unsigned)((args->batch * args->m * args->n + THREADS - 1) / THREADS), THREADS, 0, stream, *args, *a, *b);
}
