/* The bodies of rk_row_load and rk_row_store (kernels/kernels.h); included once for each instruction set. */
#include "kernels/kernel_list.h"
#include "kernels/row_convert/row_bits.h"

void RK_KERNEL_NAME(rk_row_load)(const rk_rows *rows, int64_t row, float *out) {
    load_row(rows, row, out);
}

void RK_KERNEL_NAME(rk_row_store)(const rk_rows *rows, int64_t row, const float *values, uint64_t seed, uint64_t counter) {
    store_row(rows, row, values, seed, counter);
}
