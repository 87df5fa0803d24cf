/* The uses of a part's rows in the order in which they are updated. */
#ifndef RK_KERNELS_SORT_ROW_USES_H
#define RK_KERNELS_SORT_ROW_USES_H

#include "kernels/fused_update.h"

/* A stable sort by place; places have up to place_bits bits. aside: [n] scratch. */
void rk_sort_row_uses(rk_row_use *uses, int64_t n, int place_bits, rk_row_use *scratch);

#endif
