/* Random numbers for the initial values of a row: pure functions of (seed, table, id, column). */
#ifndef RK_KERNELS_RANDOM_INIT_ROW_H
#define RK_KERNELS_RANDOM_INIT_ROW_H

#include <stdbool.h>
#include <stdint.h>

/*     for k in 0 .. dim-1:
 *         word = word k % 4 of rk_rng_draw_four_words(seed, table, id * RK_MAX_DIM / 4 + k / 4)
 *         normal:  p = low + range * (word + 1/2) / 2^32;  out[k] = shift + scale * (the number below which a
 *         normal one falls with probability p)
 *         else:    out[k] = shift + scale * (low + range * floor(word / 2^8) / 2^24)
 *
 * in f32. The inverse of the normal distribution is Wichura's PPND7 (1988, AS 241), good to six digits so.
 * Column k is the same in a wider table. */
typedef struct rk_random_init_row_args {
    uint64_t seed, table;
    bool normal;
    float low, range,
        rest_low; /* rest_low: 1 - low - range, told apart so that small probabilities keep their digits */
    float shift, scale;
} rk_random_init_row_args;
void rk_random_init_row(const rk_random_init_row_args *args, int64_t id, int32_t dim, float *out);

#endif
