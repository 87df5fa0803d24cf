/* Sums of many terms in sixteen fixed lanes: the same order, and so the same bits, on every instruction
 * set. */
#ifndef RK_KERNELS_INLINE_LANE_SUM_H
#define RK_KERNELS_INLINE_LANE_SUM_H

#include <stdint.h>

#include "kernels/real.h"

enum { RK_LANES = 16 };

static inline rk_real rk_sum_lanes(const rk_real *lanes) {
    rk_real eight[8], four[4];
    for (int i = 0; i < 8; i++) eight[i] = lanes[i] + lanes[i + 8];
    for (int i = 0; i < 4; i++) four[i] = eight[i] + eight[i + 4];
    return (four[0] + four[2]) + (four[1] + four[3]);
}

static inline rk_real rk_dot_product_by_lanes(const rk_real *a, const rk_real *b, int64_t n) {
    rk_real lanes[RK_LANES] = {0};
    int64_t i = 0;
    for (; i + RK_LANES <= n; i += RK_LANES)
        for (int l = 0; l < RK_LANES; l++) lanes[l] += a[i + l] * b[i + l];
    for (int l = 0; i < n; i++, l++) lanes[l] += a[i] * b[i];
    return rk_sum_lanes(lanes);
}

#endif
