#include "base/rng.h"

#include <math.h>

uint64_t rk_rng_u64(uint64_t seed, uint64_t stream, uint64_t counter) {
    uint32_t block[4];
    rk_rng_draw_four_words(seed, stream, counter, block);
    return (uint64_t)block[1] << 32 | block[0];
}

uint64_t rk_rng_next(rk_rng *rng) {
    return rk_rng_u64(rng->seed, rng->stream, rng->counter++);
}

uint64_t rk_rng_below(rk_rng *rng, uint64_t n) {
    uint64_t reject = -n % n; /* 2^64 mod n: values below it would be drawn once too often */
    for (;;) {
        uint64_t value = rk_rng_next(rng);
        if (value >= reject) return value % n;
    }
}

double rk_rng_uniform(rk_rng *rng) {
    return rk_uniform_from_bits(rk_rng_next(rng));
}

double rk_rng_normal(rk_rng *rng) {
    double u = 1.0 - rk_rng_uniform(rng); /* (0, 1] */
    double v = rk_rng_uniform(rng);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586476925 * v);
}

void rk_rng_permutation(uint64_t seed, uint64_t stream, uint32_t *order, uint32_t n) {
    rk_rng rng = {seed, stream, 0};
    for (uint32_t i = 0; i < n; i++) order[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = (uint32_t)rk_rng_below(&rng, i);
        uint32_t swap = order[i - 1];
        order[i - 1] = order[j];
        order[j] = swap;
    }
}
