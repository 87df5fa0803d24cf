/* Operations value by value where each column has a number of its own: biases, gates. */
#include "cuda/platform.h"

extern "C" {
#include "kernels/inline/scalar_functions.h"
}

#include "cuda/dense/dense_kernel_helpers.h"

__global__ static void add_bias_kernel(int64_t n, int64_t cols, const float *x, const float *b, float *y) {
    int64_t i = 4 * rk_thread_number();
    if (i >= n) return;
    float4 v = x ? rk_load4(x, i, n) : make_float4(0, 0, 0, 0);
    float at[4];
    for (int64_t k = 0, c = i % cols; k < 4; k++, c = c + 1 < cols ? c + 1 : 0) at[k] = b[c];
    rk_store4(y, i, n, make_float4(v.x + at[0], v.y + at[1], v.z + at[2], v.w + at[3]));
}

/* y[r, c] = x[r, c] + b[c]; x NULL: zeros */
void rk_cuda_add_bias(rk_stream *stream, int64_t rows, int64_t cols, const float *x, const float *b,
                      float *y) {
    RK_LAUNCH(add_bias_kernel, rk_grid_blocks_of_quads(rows * cols), RK_THREADS, 0, stream, rows * cols, cols,
              x, b, y);
}

__device__ static inline float gate_factor(float g) {
    return (float)(2 * rk_sigmoid((double)g));
}
/* Of the factor, by g. */
__device__ static inline float gate_derivative(float factor) {
    return factor * (1 - factor / 2);
}

__global__ static void apply_gate_kernel(int64_t n, int64_t cols, const float *x, const float *g, bool shared,
                                         float *y, bool overwrite) {
    int64_t i = rk_thread_number();
    if (i < n) rk_store_gradient(&y[i], gate_factor(g[shared ? i % cols : i]) * x[i], overwrite);
}

/* y[r, c] += 2 sigmoid(g) x[r, c], g = g[c] if shared, else g[r, c] */
void rk_cuda_apply_gate(rk_stream *stream, int64_t rows, int64_t cols, const float *x, const float *g,
                        bool shared, float *y, bool overwrite) {
    RK_LAUNCH(apply_gate_kernel, rk_grid_blocks(rows * cols, RK_THREADS), RK_THREADS, 0, stream, rows * cols,
              cols, x, g, shared, y, overwrite);
}

__global__ static void gate_backward_kernel(int64_t n, const float *x, const float *g, const float *dy,
                                            float *dg, bool overwrite) {
    int64_t i = rk_thread_number();
    if (i < n) rk_store_gradient(&dg[i], dy[i] * x[i] * gate_derivative(gate_factor(g[i])), overwrite);
}

/* dg[i] += dy[i] x[i] d(2 sigmoid(g[i])) */
void rk_cuda_gate_backward(rk_stream *stream, int64_t n, const float *x, const float *g, const float *dy,
                           float *dg, bool overwrite) {
    RK_LAUNCH(gate_backward_kernel, rk_grid_blocks(n, RK_THREADS), RK_THREADS, 0, stream, n, x, g, dy, dg,
              overwrite);
}

__global__ static void multiply_gate_derivatives_kernel(int64_t n, const float *g, float *dg) {
    int64_t i = rk_thread_number();
    if (i < n) dg[i] *= gate_derivative(gate_factor(g[i]));
}

/* dg[c] *= d(2 sigmoid(g[c])): after the sums of dy x of a shared gate */
void rk_cuda_multiply_gate_derivatives(rk_stream *stream, int64_t n, const float *g, float *dg) {
    RK_LAUNCH(multiply_gate_derivatives_kernel, rk_grid_blocks(n, RK_THREADS), RK_THREADS, 0, stream, n, g,
              dg);
}
