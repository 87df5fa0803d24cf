/* The bodies of rk_interaction_forward and _backward (kernels/kernels.h), compiled once for each instruction
 * set. */
#include "kernels/kernel_list.h"
#include "kernels/inline/lane_sum.h"

void RK_KERNEL_NAME(rk_interaction_forward)(const rk_real *x, int64_t n, int32_t n_vectors, int32_t dim,
                                            rk_real *out) {
    for (int64_t s = 0; s < n; s++, x += (int64_t)n_vectors * dim)
        for (int32_t i = 1; i < n_vectors; i++)
            for (int32_t j = 0; j < i; j++)
                *out++ = rk_dot_product_by_lanes(x + (int64_t)i * dim, x + (int64_t)j * dim, dim);
}

void RK_KERNEL_NAME(rk_interaction_backward)(const rk_real *x, const rk_real *dout, int64_t n,
                                             int32_t n_vectors, int32_t dim, rk_real *dx) {
    for (int64_t s = 0; s < n; s++, x += (int64_t)n_vectors * dim, dx += (int64_t)n_vectors * dim)
        for (int32_t i = 1; i < n_vectors; i++)
            for (int32_t j = 0; j < i; j++) {
                rk_real d = *dout++;
                const rk_real *xi = x + (int64_t)i * dim, *xj = x + (int64_t)j * dim;
                rk_real *di = dx + (int64_t)i * dim, *dj = dx + (int64_t)j * dim;
                for (int32_t k = 0; k < dim; k++) {
                    di[k] += d * xj[k];
                    dj[k] += d * xi[k];
                }
            }
}
