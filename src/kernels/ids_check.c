/* The body of rk_ids_check (kernels/kernels.h), compiled once for each instruction set. */
#include "kernels/ids_check.h"
#include "kernels/kernel_list.h"

void RK_KERNEL_NAME(rk_ids_check)(const int64_t *ids, int64_t n, int64_t n_rows, bool *strays) {
    *strays = has_ids_out_of_range(ids, n, n_rows);
}
