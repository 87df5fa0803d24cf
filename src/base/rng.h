/* Counter-based random numbers: a value is a pure function of (seed, stream, counter), so it does not depend
 * on threads, ranks or order. Philox4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
 * SC'11. */
#ifndef RK_BASE_RNG_H
#define RK_BASE_RNG_H

#include <stdint.h>

#include "base/device_code.h"

RK_DEVICE_CODE static inline void rk_multiply_u32_wide(uint32_t a, uint32_t b, uint32_t *high,
                                                       uint32_t *low) {
    uint64_t product = (uint64_t)a * b;
    *high = (uint32_t)(product >> 32);
    *low = (uint32_t)product;
}

/* Four independent 32-bit words of (seed, stream, counter). */
RK_DEVICE_CODE static inline void rk_rng_draw_four_words(uint64_t seed, uint64_t stream, uint64_t counter,
                                                         uint32_t out[4]) {
    uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), (uint32_t)stream,
                     (uint32_t)(stream >> 32)};
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint32_t high0, low0, high1, low1;
        rk_multiply_u32_wide(0xD2511F53u, c[0], &high0, &low0);
        rk_multiply_u32_wide(0xCD9E8D57u, c[2], &high1, &low1);
        c[0] = high1 ^ c[1] ^ key0;
        c[1] = low1;
        c[2] = high0 ^ c[3] ^ key1;
        c[3] = low0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++) out[i] = c[i];
}

uint64_t rk_rng_u64(uint64_t seed, uint64_t stream, uint64_t counter);

/* [0, 1), from the upper 53 of 64 random bits. */
static inline double rk_uniform_from_bits(uint64_t bits) {
    return (double)(bits >> 11) * 0x1p-53;
}

/* A sequence: the state is (seed, stream, counter), which is all that a checkpoint keeps. */
typedef struct rk_rng {
    uint64_t seed, stream, counter;
} rk_rng;

uint64_t rk_rng_next(rk_rng *rng);
uint64_t rk_rng_below(rk_rng *rng, uint64_t n); /* uniform in [0, n), unbiased; n > 0 */
double rk_rng_uniform(rk_rng *rng);             /* [0, 1), 53 bits */
double rk_rng_normal(rk_rng *rng);              /* mean 0, deviation 1 (Box-Muller) */

/* Fill order[n] with a permutation of 0..n-1 (Fisher-Yates) drawn from (seed, stream). */
void rk_rng_permutation(uint64_t seed, uint64_t stream, uint32_t *order, uint32_t n);

#endif
