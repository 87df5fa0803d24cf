/* The bodies of kernels/low_rank.h, compiled once for each instruction set. */
#include "kernels/inline/lane_sum.h"
#include "kernels/kernel_list.h"

void RK_KERNEL_NAME(rk_low_rank_times_columns)(const rk_low_rank_args *a) {
    for (int64_t i = 0; i < a->rows; i++)
        for (int32_t k = 0; k < a->n_vectors; k++)
            a->p[k * a->p_stride + i] =
                rk_dot_product_by_lanes(a->m + i * a->m_stride, a->q + k * a->q_stride, a->cols);
}

static void add_multiple(const rk_real *from, rk_real factor, int64_t n, rk_real *restrict to) {
    for (int64_t j = 0; j < n; j++) to[j] += factor * from[j];
}

void RK_KERNEL_NAME(rk_low_rank_times_rows)(const rk_low_rank_args *a) {
    for (int32_t k = 0; k < a->n_vectors; k++)
        for (int64_t j = 0; j < a->cols; j++) a->q[k * a->q_stride + j] = 0;
    for (int64_t i = 0; i < a->rows; i++)
        for (int32_t k = 0; k < a->n_vectors; k++)
            add_multiple(a->m + i * a->m_stride, a->p[k * a->p_stride + i], a->cols, a->q + k * a->q_stride);
}

void RK_KERNEL_NAME(rk_low_rank_add)(const rk_low_rank_args *a) {
    for (int64_t i = 0; i < a->rows; i++) {
        const rk_real *m = a->m + i * a->m_stride;
        rk_real *out = a->out + i * a->m_stride;
        if (out != m)
            for (int64_t j = 0; j < a->cols; j++) out[j] = m[j];
        for (int32_t k = 0; k < a->n_vectors; k++)
            add_multiple(a->q + k * a->q_stride, a->scale * a->p[k * a->p_stride + i], a->cols, out);
    }
}
