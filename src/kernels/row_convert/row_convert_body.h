/* The bodies of rk_row_load and rk_row_store (kernels/kernels.h); included once for each instruction set. */
#include <string.h>

#include "base/float16.h"
#include "base/rng.h"
#include "kernels/kernel_list.h"

void RK_KERNEL_NAME(rk_row_load)(const rk_rows *rows, int64_t row, float *out) {
    int32_t dim = rows->dim;
    if (rows->dtype == RK_F32) {
        memcpy(out, (const float *)rows->data + row * dim, (size_t)dim * sizeof *out);
        return;
    }
    const uint16_t *from = (const uint16_t *)rows->data + row * dim;
    if (rows->dtype == RK_BF16)
        for (int32_t k = 0; k < dim; k++) out[k] = rk_bf16_to_f32(from[k]);
    else
        for (int32_t k = 0; k < dim; k++) out[k] = rk_f16_to_f32(from[k]);
}

void RK_KERNEL_NAME(rk_row_store)(const rk_rows *rows, int64_t row, const float *values, uint64_t seed, uint64_t counter) {
    int32_t dim = rows->dim;
    if (rows->dtype == RK_F32) {
        memcpy((float *)rows->data + row * dim, values, (size_t)dim * sizeof *values);
        return;
    }
    uint16_t *to = (uint16_t *)rows->data + row * dim;
    uint32_t random[4]; /* eight columns' 16 bits */
    for (int32_t k = 0; k < dim; k++) {
        if (k % 8 == 0) rk_rng_block(seed, (uint64_t)k, counter, random);
        uint32_t bits = random[k % 8 / 2] >> (k % 2 * 16);
        to[k] = rows->dtype == RK_BF16 ? rk_bf16_from_f32_stochastic(values[k], bits) : rk_f16_from_f32_stochastic(values[k], bits);
    }
}
