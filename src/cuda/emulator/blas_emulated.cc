/* Matrix products by plain loops, queued as work of the stream: blas_lt.cu's place in the emulator. */
#include <memory>
#include <vector>

#include "cuda/blas.h"
#include "cuda/device_state.h"
#include "cuda/emulator/queue.h"

rk_status rk_blas_create(rk_device *, rk_blas **out) {
    *out = NULL;
    return RK_OK;
}
void rk_blas_free(rk_blas *) {}

/* To nearest even with 10 bits behind the point, as tensor cores read f32. */
static float round_to_tf32(float value) {
    uint32_t bits = rk_f32_bits(value);
    return (bits & 0x7F800000u) == 0x7F800000u ? value : rk_f32_from_bits((bits + 0xFFFu + (bits >> 13 & 1)) & ~0x1FFFu);
}
static float operand(float value, rk_cuda_math math) {
    return math == RK_CUDA_BF16 ? rk_bf16_to_f32(rk_bf16_from_f32(value)) : math == RK_CUDA_TF32 ? round_to_tf32(value) : value;
}

/* op(x) [rows, cols], each row behind the last. */
static std::vector<float> packed(const float *x, int64_t ld, bool is_transposed, int64_t rows, int64_t cols, rk_cuda_math math) {
    std::vector<float> result((size_t)(rows * cols));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) result[(size_t)(i * cols + j)] = operand(is_transposed ? x[j * ld + i] : x[i * ld + j], math);
    return result;
}

static void multiply(const rk_cuda_gemm_args &g, const float *a_from, const float *b_from, float *c) {
    std::vector<float> a = packed(a_from, g.lda, g.a_transposed, g.m, g.k, g.math), b = packed(b_from, g.ldb, g.b_transposed, g.k, g.n, g.math);
    std::vector<float> sums((size_t)g.n);
    for (int64_t i = 0; i < g.m; i++) {
        sums.assign((size_t)g.n, 0.0f);
        for (int64_t l = 0; l < g.k; l++) {
            const float left = a[(size_t)(i * g.k + l)], *right = &b[(size_t)(l * g.n)];
            for (int64_t j = 0; j < g.n; j++) sums[(size_t)j] += left * right[j];
        }
        for (int64_t j = 0; j < g.n; j++) {
            float *to = &c[i * g.ldc + j], value = g.alpha * sums[(size_t)j];
            if (g.beta != 0) value += g.beta * *to;
            if (g.bias) value += g.bias[j];
            *to = g.relu && !(value > 0) ? 0 : value;
        }
    }
}

void rk_cuda_gemm(rk_stream *stream, const rk_cuda_gemm_args *args) {
    rk_cuda_gemm_args g = *args;
    rk_queue_push(rk_stream_native(stream), {[g] {
        for (int64_t i = 0; i < (g.batch ? g.batch : 1); i++) multiply(g, g.a + i * g.stride_a, g.b + i * g.stride_b, g.c + i * g.stride_c);
    }, NULL, false});
}
