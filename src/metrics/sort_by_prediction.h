/* Sorting samples by their predictions: what AUC and GAUC are made of. */
#ifndef RK_METRICS_SORT_BY_PREDICTION_H
#define RK_METRICS_SORT_BY_PREDICTION_H

#include <stddef.h>
#include <stdint.h>

#include "base/float16.h"

/* One sample: what it is sorted by, and which it is. */
typedef struct rk_rank_item {
    uint32_t key, index;
} rk_rank_item;

/* Unsigned integers in the order of the floats; -0 and 0 tie. Not for NaN. */
static inline uint32_t rk_prediction_sort_key(float value) {
    uint32_t bits = rk_f32_bits(value + 0.0f);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* A stable sort by key, ascending; scratch [n]. The result is in items. */
void rk_sort_by_prediction(rk_rank_item *items, rk_rank_item *scratch, size_t n);

#endif
