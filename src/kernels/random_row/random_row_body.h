/* The body of rk_random_row (kernels/random_row/random_row.h); included once for each instruction set. */
#include <math.h>
#include <string.h>

#include "kernels/kernel_list.h"
#include "kernels/rows.h"

enum { BLOCKS = 8, VALUES = 4 * BLOCKS, ROUNDS = 10 };

/* rk_rng_block (base/rng.h) of BLOCKS counters beside each other; out[4 * b + w] is word w of block b. */
static void random_words(uint64_t seed, uint64_t stream, uint64_t counter, uint32_t *restrict out) {
    uint32_t c0[BLOCKS], c1[BLOCKS], c2[BLOCKS], c3[BLOCKS], key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int b = 0; b < BLOCKS; b++) {
        c0[b] = (uint32_t)(counter + (uint64_t)b);
        c1[b] = (uint32_t)((counter + (uint64_t)b) >> 32);
        c2[b] = (uint32_t)stream;
        c3[b] = (uint32_t)(stream >> 32);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int b = 0; b < BLOCKS; b++) {
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
    for (int b = 0; b < BLOCKS; b++) {
        out[4 * b] = c0[b];
        out[4 * b + 1] = c1[b];
        out[4 * b + 2] = c2[b];
        out[4 * b + 3] = c3[b];
    }
}

/* The natural logarithm of x in (0, 1], to seven digits, by arithmetic that is the same on every processor: x = m 2^e with m in [2/3, 4/3), and
 * log m = 2 artanh((m-1)/(m+1)), whose argument is at most 1/5. */
static inline float log_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    int32_t shifted = (int32_t)(bits - 0x3F2AAAABu); /* 2/3 */
    float e = (float)(shifted >> 23), m;
    bits -= (uint32_t)shifted & 0xFF800000u;
    memcpy(&m, &bits, sizeof m);
    float s = (m - 1) / (m + 1), t = s * s;
    return e * 0.69314718056f + 2 * s * (1 + t * (0.33333333333f + t * (0.2f + t * (0.14285714286f + t * 0.11111111111f))));
}

/* p and 1 - p, both at least 2^-33: PPND7's third range is never met. */
static inline float normal_quantile(float p, float rest) {
    float q = p - 0.5f, r = 0.180625f - q * q, tail = q < 0 ? p : rest;
    float middle = q * (((59.109374720f * r + 159.29113202f) * r + 50.434271938f) * r + 3.3871327179f) / (((67.187563600f * r + 78.757757664f) * r + 17.895169469f) * r + 1);
    float t = sqrtf(-log_of(tail)) - 1.6f;
    float outer = (((0.17023821103f * t + 1.3067284816f) * t + 2.7568153900f) * t + 1.4234372777f) / ((0.12021132975f * t + 0.73700164250f) * t + 1);
    outer = q < 0 ? -outer : outer;
    return fabsf(q) <= 0.425f ? middle : outer;
}

void RK_KERNEL_NAME(rk_random_row)(const rk_random_row_args *args, int64_t id, int32_t dim, float *out) {
    uint32_t words[VALUES];
    float values[VALUES], low = args->low, range = args->range, rest_low = args->rest_low, shift = args->shift, scale = args->scale;
    for (int32_t first = 0; first < dim; first += VALUES) {
        int32_t n = dim - first < VALUES ? dim - first : VALUES;
        random_words(args->seed, args->table, (uint64_t)id * (RK_MAX_DIM / 4) + (uint64_t)first / 4, words);
        if (args->normal)
            for (int i = 0; i < VALUES; i++) {
                float u = ((float)words[i] + 0.5f) * 0x1p-32f, v = ((float)~words[i] + 0.5f) * 0x1p-32f;
                values[i] = shift + scale * normal_quantile(low + range * u, rest_low + range * v);
            }
        else
            for (int i = 0; i < VALUES; i++) values[i] = shift + scale * (low + range * ((float)(words[i] >> 8) * 0x1p-24f));
        memcpy(out + first, values, (size_t)n * sizeof *out);
    }
}
