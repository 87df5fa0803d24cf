/* Random words many at a time: included by the kernels that draw them, once for each instruction set, with
 * RANDOM_BLOCKS defined: a multiple of 8; more are faster where so many are wanted. */
#ifndef RK_KERNELS_INLINE_RANDOM_WORDS_H
#define RK_KERNELS_INLINE_RANDOM_WORDS_H

#include <stdint.h>

enum { RANDOM_WORDS = 4 * RANDOM_BLOCKS, RANDOM_ROUNDS = 10 };

/* rk_rng_draw_four_words (base/rng.h) of RANDOM_BLOCKS counters beside each other; out[4 * b + w] is word w
 * of block b. A function of its own: inlined into some loops, gcc 12 unrolls it before it can vectorize it.
 */
__attribute__((noinline)) static void fill_random_words(uint64_t seed, uint64_t stream, uint64_t counter,
                                                        uint32_t *restrict out) {
    uint32_t c0[RANDOM_BLOCKS], c1[RANDOM_BLOCKS], c2[RANDOM_BLOCKS], c3[RANDOM_BLOCKS],
        key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int b = 0; b < RANDOM_BLOCKS; b++) {
        c0[b] = (uint32_t)(counter + (uint64_t)b);
        c1[b] = (uint32_t)((counter + (uint64_t)b) >> 32);
        c2[b] = (uint32_t)stream;
        c3[b] = (uint32_t)(stream >> 32);
    }
    for (int round = 0; round < RANDOM_ROUNDS; round++) {
        for (int b = 0; b < RANDOM_BLOCKS; b++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c0[b], p1 = (uint64_t)0xCD9E8D57u * c2[b];
            uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1[b] ^ key0, n2 = (uint32_t)(p0 >> 32) ^ c3[b] ^ key1;
            c0[b] = n0;
            c1[b] = (uint32_t)p1;
            c2[b] = n2;
            c3[b] = (uint32_t)p0;
        }
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    for (int b = 0; b < RANDOM_BLOCKS; b++) {
        out[4 * b] = c0[b];
        out[4 * b + 1] = c1[b];
        out[4 * b + 2] = c2[b];
        out[4 * b + 3] = c3[b];
    }
}

#endif
