/* The products of a compressed interaction network (nn/ops/op_cin.c), for a piece of the batch at a time; n
 * counts rows of dim. */
#include "cuda/platform.h"

#include "cuda/dense/dense_kernel_helpers.h"

__global__ static void cin_products_kernel(int64_t n, int64_t fields, int64_t maps, const float *x0,
                                           const float *x, float *to) {
    int64_t i = rk_thread_number();
    if (i >= n * fields * maps) return;
    int64_t j = i % fields, h = i / fields % maps, d = i / (fields * maps);
    to[i] = x[d * maps + h] * x0[d * fields + j];
}

/* products[d, h, j] = x[d, h] x0[d, j] */
void rk_cuda_cin_products(rk_stream *stream, int64_t n, int64_t fields, int64_t maps, const float *x0,
                          const float *x, float *to) {
    RK_LAUNCH(cin_products_kernel, rk_grid_blocks(n * fields * maps, RK_THREADS), RK_THREADS, 0, stream, n,
              fields, maps, x0, x, to);
}

/* A warp a row d: first dx0, then dx, which may be the same array. */
__global__ static void cin_products_backward_kernel(int64_t n, int64_t fields, int64_t maps, const float *x0,
                                                    const float *x, const float *dproducts, float *dx0,
                                                    bool overwrite0, float *dx, bool overwrite1) {
    int64_t d = rk_warp_number();
    bool here = d < n;
    const float *from = dproducts + d * fields * maps;
    for (int64_t j = rk_lane_number(); here && j < fields; j += RK_WARP) {
        float sum = 0;
        for (int64_t h = 0; h < maps; h++) sum += from[h * fields + j] * x[d * maps + h];
        rk_store_gradient(&dx0[d * fields + j], sum, overwrite0);
    }
    __syncwarp();
    for (int64_t h = rk_lane_number(); here && h < maps; h += RK_WARP) {
        float sum = 0;
        for (int64_t j = 0; j < fields; j++) sum += from[h * fields + j] * x0[d * fields + j];
        rk_store_gradient(&dx[d * maps + h], sum, overwrite1);
    }
}

/* dx0[d, j] += sum_h dproducts[d, h, j] x[d, h];  dx[d, h] += sum_j dproducts[d, h, j] x0[d, j] */
void rk_cuda_cin_products_backward(rk_stream *stream, int64_t n, int64_t fields, int64_t maps,
                                   const float *x0, const float *x, const float *dproducts, float *dx0,
                                   bool overwrite0, float *dx, bool overwrite1) {
    RK_LAUNCH(cin_products_backward_kernel, rk_grid_blocks_of_warps(n), RK_THREADS, 0, stream, n, fields,
              maps, x0, x, dproducts, dx0, overwrite0, dx, overwrite1);
}
