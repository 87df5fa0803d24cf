/* The largest of some numbers, without sorting the others. */
#ifndef RK_BASE_SELECT_TOP_K_H
#define RK_BASE_SELECT_TOP_K_H

#include <stddef.h>
#include <stdint.h>

/* The k largest to the front, the least of them at k-1, the others in no order; 0 < k <= n. */
void rk_select_top_k(uint64_t *values, size_t n, size_t k);

#endif
