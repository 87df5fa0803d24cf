/* Random words many at a time: included by the kernels that draw them, once for each instruction set, with
 * RANDOM_BLOCKS defined: a multiple of 8; more are faster where so many are wanted. */
#ifndef RK_KERNELS_INLINE_RANDOM_WORDS_H
#define RK_KERNELS_INLINE_RANDOM_WORDS_H

#ifdef __AVX2__
#include <immintrin.h>
#endif
#include <stdint.h>
#include <string.h>

enum { RANDOM_WORDS = 4 * RANDOM_BLOCKS, RANDOM_ROUNDS = 10 };

#ifdef __AVX2__
/* Lanes of 64 bits have a word each, of which products read the lower half alone. Written out, as compilers
 * multiply whole lanes, or word by word. */
#ifdef __AVX512F__
enum { RANDOM_LANES = 8 };
typedef uint64_t random_lanes __attribute__((vector_size(64)));
static inline random_lanes multiply_words(random_lanes a, uint32_t b) {
    return (random_lanes)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64(b));
}
#else
enum { RANDOM_LANES = 4 };
typedef uint64_t random_lanes __attribute__((vector_size(32)));
static inline random_lanes multiply_words(random_lanes a, uint32_t b) {
    return (random_lanes)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(b));
}
#endif

/* Of RANDOM_LANES counters: their first two words in each lane of *first, the others in *second. */
static inline void draw_random_lanes(uint64_t seed, uint64_t stream, const uint64_t *counters,
                                     random_lanes *first, random_lanes *second) {
    const random_lanes low = ~(random_lanes){0} >> 32;
    random_lanes c0, c1, c2 = (random_lanes){0} + stream, c3 = c2 >> 32;
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    memcpy(&c0, counters, sizeof c0);
    c1 = c0 >> 32;
    for (int round = 0; round < RANDOM_ROUNDS; round++) {
        random_lanes p0 = multiply_words(c0, 0xD2511F53u), p1 = multiply_words(c2, 0xCD9E8D57u);
        c0 = p1 >> 32 ^ c1 ^ key0;
        c2 = p0 >> 32 ^ c3 ^ key1;
        c1 = p1;
        c3 = p0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    *first = (c0 & low) | c1 << 32;
    *second = (c2 & low) | c3 << 32;
}

/* rk_rng_draw_four_words (base/rng.h) of RANDOM_BLOCKS counters; out[4 * b + w] is word w of block b. */
static inline void fill_random_words_of(uint64_t seed, uint64_t stream, const uint64_t *counters,
                                        uint32_t *out) {
    for (int b = 0; b < RANDOM_BLOCKS; b += RANDOM_LANES) {
        random_lanes first, second;
        draw_random_lanes(seed, stream, counters + b, &first, &second);
        for (int l = 0; l < RANDOM_LANES; l++) {
            const uint64_t words[2] = {first[l], second[l]};
            memcpy(out + 4 * (b + l), words, sizeof words);
        }
    }
}

/* The first two words of each block alone. */
static inline void fill_word_pairs_of(uint64_t seed, uint64_t stream, const uint64_t *counters,
                                      uint32_t *out) {
    for (int b = 0; b < RANDOM_BLOCKS; b += RANDOM_LANES) {
        random_lanes first, second;
        draw_random_lanes(seed, stream, counters + b, &first, &second);
        memcpy(out + 2 * b, &first, sizeof first);
    }
}
#else
/* The same. A function of its own: inlined into some loops, gcc 12 unrolls it before it can vectorize it. */
__attribute__((noinline)) static void fill_random_words_of(uint64_t seed, uint64_t stream,
                                                           const uint64_t *restrict counters,
                                                           uint32_t *restrict out) {
    uint32_t c0[RANDOM_BLOCKS], c1[RANDOM_BLOCKS], c2[RANDOM_BLOCKS], c3[RANDOM_BLOCKS],
        key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int b = 0; b < RANDOM_BLOCKS; b++) {
        c0[b] = (uint32_t)counters[b];
        c1[b] = (uint32_t)(counters[b] >> 32);
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

static inline void fill_word_pairs_of(uint64_t seed, uint64_t stream, const uint64_t *counters,
                                      uint32_t *out) {
    uint32_t words[RANDOM_WORDS];
    fill_random_words_of(seed, stream, counters, words);
    for (int b = 0; b < RANDOM_BLOCKS; b++) memcpy(out + 2 * b, words + 4 * b, 2 * sizeof *out);
}
#endif

/* Of RANDOM_BLOCKS counters beside each other. */
static inline void fill_random_words(uint64_t seed, uint64_t stream, uint64_t counter,
                                     uint32_t *restrict out) {
    uint64_t counters[RANDOM_BLOCKS];
    for (int b = 0; b < RANDOM_BLOCKS; b++) counters[b] = counter + (uint64_t)b;
    fill_random_words_of(seed, stream, counters, out);
}

#endif
