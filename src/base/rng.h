/* Counter-based random numbers: a value is a pure function of (seed, stream, counter), so it does not depend on threads,
 * shards or order. Philox4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11. */
#ifndef RK_BASE_RNG_H
#define RK_BASE_RNG_H

#include <stdint.h>

/* Four independent 32-bit words of (seed, stream, counter). */
void rk_rng_block(uint64_t seed, uint64_t stream, uint64_t counter, uint32_t out[4]);
uint64_t rk_rng_u64(uint64_t seed, uint64_t stream, uint64_t counter);

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
