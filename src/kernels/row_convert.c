/* The bodies of rk_row_load, rk_row_store and rk_bf16_round (kernels/kernels.h), compiled once for each
 * instruction set. */
#include "kernels/kernel_list.h"
#include "kernels/inline/row_bits.h"

void RK_KERNEL_NAME(rk_row_load)(const rk_rows *rows, int64_t row, float *out) {
    load_row(rows, row, out);
}

void RK_KERNEL_NAME(rk_row_store)(const rk_rows *rows, int64_t row, const float *values, uint64_t seed,
                                  uint64_t counter) {
    store_row(rows, row, values, seed, counter);
}

void RK_KERNEL_NAME(rk_bf16_round)(const float *restrict from, void *restrict to, int64_t n, bool wide) {
    uint16_t *restrict halves = to;
    float *restrict floats = to;
    if (wide)
        for (int64_t i = 0; i < n; i++) floats[i] = rk_bf16_to_f32(rk_bf16_from_f32(from[i]));
    else
        for (int64_t i = 0; i < n; i++) halves[i] = rk_bf16_from_f32(from[i]);
}
