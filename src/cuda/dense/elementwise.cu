/* Operations value by value: 16 bytes a thread and array; bound by memory. */
#include "cuda/platform.h"

extern "C" {
#include "kernels/inline/scalar_functions.h"
}

#include "cuda/dense/dense_kernel_helpers.h"

__device__ static inline float unary_value(rk_cuda_unary_kind kind, float x) {
    switch (kind) {
        case RK_CUDA_RELU:
            return x <= 0 ? 0.0f : x; /* NaN stays */
        case RK_CUDA_GELU:
            return x * (float)rk_normal_cdf((double)x);
        case RK_CUDA_SIGMOID:
            return (float)rk_sigmoid((double)x);
        case RK_CUDA_TANH:
            return (float)tanh((double)x);
    }
    return 0;
}

__device__ static inline float unary_derivative(rk_cuda_unary_kind kind, float x, float y) {
    switch (kind) {
        case RK_CUDA_RELU:
            return x > 0 ? 1.0f : 0.0f;
        case RK_CUDA_GELU:
            return (float)rk_normal_cdf((double)x) + x * (float)rk_normal_density((double)x);
        case RK_CUDA_SIGMOID:
            return y * (1 - y);
        case RK_CUDA_TANH:
            return 1 - y * y;
    }
    return 0;
}

__global__ static void unary_kernel(rk_cuda_unary_kind kind, int64_t n, const float *x, float *y) {
    int64_t i = 4 * rk_thread_number();
    if (i >= n) return;
    float4 v = rk_load4(x, i, n);
    rk_store4(y, i, n,
              make_float4(unary_value(kind, v.x), unary_value(kind, v.y), unary_value(kind, v.z),
                          unary_value(kind, v.w)));
}

/* y[i] = f(x[i]) */
void rk_cuda_unary(rk_stream *stream, rk_cuda_unary_kind kind, int64_t n, const float *x, float *y) {
    RK_LAUNCH(unary_kernel, rk_grid_blocks_of_quads(n), RK_THREADS, 0, stream, kind, n, x, y);
}

__global__ static void unary_backward_kernel(rk_cuda_unary_kind kind, int64_t n, const float *x,
                                             const float *y, const float *dy, float *dx, bool overwrite) {
    int64_t i = 4 * rk_thread_number();
    if (i >= n) return;
    float4 a = rk_load4(x, i, n), b = rk_load4(y, i, n), d = rk_load4(dy, i, n);
    rk_store_gradient4(
        dx, i, n,
        make_float4(d.x * unary_derivative(kind, a.x, b.x), d.y * unary_derivative(kind, a.y, b.y),
                    d.z * unary_derivative(kind, a.z, b.z), d.w * unary_derivative(kind, a.w, b.w)),
        overwrite);
}

/* dx[i] += dy[i] f'(x[i]) */
void rk_cuda_unary_backward(rk_stream *stream, rk_cuda_unary_kind kind, int64_t n, const float *x,
                            const float *y, const float *dy, float *dx, bool overwrite) {
    RK_LAUNCH(unary_backward_kernel, rk_grid_blocks_of_quads(n), RK_THREADS, 0, stream, kind, n, x, y, dy, dx,
              overwrite);
}

__global__ static void add_to_kernel(int64_t n, const float *x, float *y, bool overwrite) {
    int64_t i = 4 * rk_thread_number();
    if (i < n) rk_store_gradient4(y, i, n, rk_load4(x, i, n), overwrite);
}

/* y[i] += x[i] */
void rk_cuda_add_to(rk_stream *stream, int64_t n, const float *x, float *y, bool overwrite) {
    RK_LAUNCH(add_to_kernel, rk_grid_blocks_of_quads(n), RK_THREADS, 0, stream, n, x, y, overwrite);
}

__global__ static void add_two_kernel(int64_t n, const float *a, const float *b, float *y) {
    int64_t i = 4 * rk_thread_number();
    if (i >= n) return;
    float4 p = rk_load4(a, i, n), q = rk_load4(b, i, n);
    rk_store4(y, i, n, make_float4(p.x + q.x, p.y + q.y, p.z + q.z, p.w + q.w));
}

/* y[i] = a[i] + b[i] */
void rk_cuda_add_two(rk_stream *stream, int64_t n, const float *a, const float *b, float *y) {
    RK_LAUNCH(add_two_kernel, rk_grid_blocks_of_quads(n), RK_THREADS, 0, stream, n, a, b, y);
}

__device__ static inline float4 multiply4(float4 a, float4 b) {
    return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}

__global__ static void multiply_kernel(int64_t n, const float *a, const float *b, float *y, bool overwrite) {
    int64_t i = 4 * rk_thread_number();
    if (i < n) rk_store_gradient4(y, i, n, multiply4(rk_load4(a, i, n), rk_load4(b, i, n)), overwrite);
}

/* y[i] += a[i] b[i] */
void rk_cuda_multiply(rk_stream *stream, int64_t n, const float *a, const float *b, float *y,
                      bool overwrite) {
    RK_LAUNCH(multiply_kernel, rk_grid_blocks_of_quads(n), RK_THREADS, 0, stream, n, a, b, y, overwrite);
}

__global__ static void cross_combine_kernel(int64_t n, const float *x0, const float *y, const float *x,
                                            float *z) {
    int64_t i = 4 * rk_thread_number();
    if (i >= n) return;
    float4 p = multiply4(rk_load4(x0, i, n), rk_load4(y, i, n)), q = rk_load4(x, i, n);
    rk_store4(z, i, n, make_float4(p.x + q.x, p.y + q.y, p.z + q.z, p.w + q.w));
}

/* z[i] = x0[i] y[i] + x[i] */
void rk_cuda_cross_combine(rk_stream *stream, int64_t n, const float *x0, const float *y, const float *x,
                           float *z) {
    RK_LAUNCH(cross_combine_kernel, rk_grid_blocks_of_quads(n), RK_THREADS, 0, stream, n, x0, y, x, z);
}

__global__ static void cross_combine_backward_kernel(int64_t n, const float *x0, const float *y,
                                                     const float *dz, float *dx0, bool overwrite0, float *dy,
                                                     bool overwrite1, float *dx, bool overwrite2) {
    int64_t i = 4 * rk_thread_number();
    if (i >= n) return;
    float4 d = rk_load4(dz, i, n), a = rk_load4(x0, i, n), b = rk_load4(y, i, n);
    rk_store_gradient4(dx0, i, n, multiply4(d, b), overwrite0);
    rk_store_gradient4(dy, i, n, multiply4(d, a), overwrite1);
    rk_store_gradient4(dx, i, n, d, overwrite2);
}

/* dx0[i] += dz[i] y[i];  dy[i] += dz[i] x0[i];  dx[i] += dz[i] */
void rk_cuda_cross_combine_backward(rk_stream *stream, int64_t n, const float *x0, const float *y,
                                    const float *dz, float *dx0, bool overwrite0, float *dy, bool overwrite1,
                                    float *dx, bool overwrite2) {
    RK_LAUNCH(cross_combine_backward_kernel, rk_grid_blocks_of_quads(n), RK_THREADS, 0, stream, n, x0, y, dz,
              dx0, overwrite0, dy, overwrite1, dx, overwrite2);
}

__global__ static void product_logit_kernel(int64_t n, const float *a, const float *b, float *z) {
    int64_t i = rk_thread_number();
    double parts[3];
    if (i < n) z[i] = (float)rk_product_logit_terms((double)a[i], (double)b[i], parts);
}

/* z[i]: the logit of the product of two probabilities, by their logits */
void rk_cuda_product_logit(rk_stream *stream, int64_t n, const float *a, const float *b, float *z) {
    RK_LAUNCH(product_logit_kernel, rk_grid_blocks(n, RK_THREADS), RK_THREADS, 0, stream, n, a, b, z);
}

__global__ static void product_logit_backward_kernel(int64_t n, const float *a, const float *b,
                                                     const float *dz, float *da, bool overwrite_a, float *db,
                                                     bool overwrite_b) {
    int64_t i = rk_thread_number();
    if (i >= n) return;
    double parts[3];
    rk_product_logit_terms((double)a[i], (double)b[i], parts);
    double sum = parts[0] + parts[1] + parts[2];
    rk_store_gradient(&da[i], (float)((double)dz[i] * (parts[0] + parts[2]) / sum), overwrite_a);
    rk_store_gradient(&db[i], (float)((double)dz[i] * (parts[1] + parts[2]) / sum), overwrite_b);
}

/* da[i] += dz[i] dz/da;  db[i] += dz[i] dz/db */
void rk_cuda_product_logit_backward(rk_stream *stream, int64_t n, const float *a, const float *b,
                                    const float *dz, float *da, bool overwrite_a, float *db,
                                    bool overwrite_b) {
    RK_LAUNCH(product_logit_backward_kernel, rk_grid_blocks(n, RK_THREADS), RK_THREADS, 0, stream, n, a, b,
              dz, da, overwrite_a, db, overwrite_b);
}
