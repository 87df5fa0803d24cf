/* Matrix products by plain loops, queued as work of the stream: blas_lt.cu's place in the emulator. It
 * remembers shapes as that does, to refuse what that refuses. */
#include <algorithm>
#include <vector>

#include "cuda/libraries/blas_multiply.h"
#include "cuda/emulator/emulator_queue.h"

struct rk_blas {
    std::vector<rk_blas_shape> chosen;
};

rk_status rk_blas_create(rk_device *, rk_blas **out) {
    *out = new rk_blas;
    return RK_OK;
}
void rk_blas_free(rk_blas *blas) {
    delete blas;
}

static rk_status remember_shape(rk_stream *stream, const rk_blas_shape &shape) {
    std::vector<rk_blas_shape> &chosen = stream->device->blas->chosen;
    if (std::any_of(chosen.begin(), chosen.end(),
                    [&](const rk_blas_shape &each) { return memcmp(&each, &shape, sizeof shape) == 0; }))
        return RK_OK;
    RK_TRY(rk_blas_check_not_captured(stream));
    chosen.push_back(shape);
    return RK_OK;
}

/* To nearest even with 10 bits behind the point, as tensor cores read f32. */
static float round_to_tf32(float value) {
    uint32_t bits = rk_f32_bits(value);
    return (bits & 0x7F800000u) == 0x7F800000u
               ? value
               : rk_f32_from_bits((bits + 0xFFFu + (bits >> 13 & 1)) & ~0x1FFFu);
}

/* op(x) [rows, cols] as it is multiplied, each row behind the last. */
static std::vector<float> pack_operand(const rk_blas_operand &x, int64_t i_batch, bool is_transposed,
                                       int64_t rows, int64_t cols, rk_cuda_math math) {
    std::vector<float> result((size_t)(rows * cols));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            int64_t at = i_batch * x.stride + (is_transposed ? j * x.ld + i : i * x.ld + j);
            float value = math == RK_CUDA_BF16 ? rk_bf16_to_f32(((const uint16_t *)x.values)[at])
                                               : ((const float *)x.values)[at];
            result[(size_t)(i * cols + j)] = math == RK_CUDA_TF32 ? round_to_tf32(value) : value;
        }
    return result;
}

static void multiply_matrices(const rk_cuda_gemm_args &g, const rk_blas_operand &a_from,
                              const rk_blas_operand &b_from, int64_t i_batch) {
    std::vector<float> a = pack_operand(a_from, i_batch, g.a_transposed, g.m, g.k, g.math),
                       b = pack_operand(b_from, i_batch, g.b_transposed, g.k, g.n, g.math), sums;
    for (int64_t i = 0; i < g.m; i++) {
        sums.assign((size_t)g.n, 0.0f);
        for (int64_t l = 0; l < g.k; l++) {
            const float left = a[(size_t)(i * g.k + l)], *right = &b[(size_t)(l * g.n)];
            for (int64_t j = 0; j < g.n; j++) sums[(size_t)j] += left * right[j];
        }
        for (int64_t j = 0; j < g.n; j++) {
            float *to = &g.c[i_batch * g.stride_c + i * g.ldc + j], value = g.alpha * sums[(size_t)j];
            if (g.beta != 0) value += g.beta * *to;
            if (g.bias) value += g.bias[j];
            *to = g.relu && !(value > 0) ? 0 : value;
        }
    }
}

rk_status rk_blas_multiply(rk_stream *stream, const rk_cuda_gemm_args *args, const rk_blas_operand *a,
                           const rk_blas_operand *b) {
    RK_TRY(remember_shape(stream, rk_blas_shape_of(args, a, b)));
    rk_emulator_queue_push(rk_stream_native(stream), {[g = *args, a = *a, b = *b] {
                                                          for (int64_t i = 0; i < g.batch; i++)
                                                              multiply_matrices(g, a, b, i);
                                                      },
                                                      NULL, false});
    return RK_OK;
}
