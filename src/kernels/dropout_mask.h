/* Dropout of consecutive values of a batch; the mask is a pure function of (seed, step, place). */
#ifndef RK_KERNELS_DROPOUT_MASK_H
#define RK_KERNELS_DROPOUT_MASK_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/real.h"

/*     for i in 0 .. n-1:
 *         word = word (place + i) % 4 of rk_rng_draw_four_words(seed, step, (place + i) / 4)
 *         y = word >= limit ? from[i] * keep : 0
 *         to[i] = add ? to[i] + y : y, if to
 *         kept[i] = word >= limit, if kept
 *
 * from and to are the same memory or do not overlap. */
typedef struct rk_dropout_mask_args {
    uint64_t seed, step;
    int64_t place; /* of from[0] among all values of the batch */
    int64_t n;
    uint32_t limit;      /* rate * 2^32 */
    rk_real keep;        /* 1 / (1 - rate) */
    const rk_real *from; /* [n] */
    rk_real *to;         /* [n] or NULL: kept alone is wanted */
    uint8_t *kept;       /* [n] or NULL: which values stay, for rk_dropout_apply_mask */
    bool add;
} rk_dropout_mask_args;
void rk_dropout_mask(const rk_dropout_mask_args *args);

/* The same mask without its random words:
 *
 *     for i in 0 .. n-1:
 *         y = kept[i] ? from[i] * keep : 0
 *         to[i] = add ? to[i] + y : 0 + y */
void rk_dropout_apply_mask(const rk_real *from, const uint8_t *kept, int64_t n, rk_real keep, bool add,
                           rk_real *to);

#endif
