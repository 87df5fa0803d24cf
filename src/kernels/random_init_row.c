/* The body of rk_random_init_row (kernels/random_init_row.h), compiled once for each instruction set. */
#include <math.h>
#include <string.h>

#include "kernels/kernel_list.h"
#include "kernels/rows.h"

#define RANDOM_BLOCKS 8
#include "kernels/inline/random_words.h"

/* The natural logarithm of x in (0, 1], to seven digits, by arithmetic that is the same on every processor: x
 * = m 2^e with m in [2/3, 4/3), and log m = 2 artanh((m-1)/(m+1)), whose argument is at most 1/5. */
static inline float log_of_unit_interval(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    int32_t shifted = (int32_t)(bits - 0x3F2AAAABu); /* 2/3 */
    float e = (float)(shifted >> 23), m;
    bits -= (uint32_t)shifted & 0xFF800000u;
    memcpy(&m, &bits, sizeof m);
    float s = (m - 1) / (m + 1), t = s * s;
    return e * 0.69314718056f +
           2 * s * (1 + t * (0.33333333333f + t * (0.2f + t * (0.14285714286f + t * 0.11111111111f))));
}

/* p and 1 - p, both at least 2^-33: PPND7's third range is never met. */
static inline float normal_quantile(float p, float rest) {
    float q = p - 0.5f, r = 0.180625f - q * q, tail = q < 0 ? p : rest;
    float middle = q * (((59.109374720f * r + 159.29113202f) * r + 50.434271938f) * r + 3.3871327179f) /
                   (((67.187563600f * r + 78.757757664f) * r + 17.895169469f) * r + 1);
    float t = sqrtf(-log_of_unit_interval(tail)) - 1.6f;
    float outer = (((0.17023821103f * t + 1.3067284816f) * t + 2.7568153900f) * t + 1.4234372777f) /
                  ((0.12021132975f * t + 0.73700164250f) * t + 1);
    outer = q < 0 ? -outer : outer;
    return fabsf(q) <= 0.425f ? middle : outer;
}

void RK_KERNEL_NAME(rk_random_init_row)(const rk_random_init_row_args *args, int64_t id, int32_t dim,
                                        float *out) {
    uint32_t words[RANDOM_WORDS];
    float values[RANDOM_WORDS], low = args->low, range = args->range, rest_low = args->rest_low,
                                shift = args->shift, scale = args->scale;
    for (int32_t first = 0; first < dim; first += RANDOM_WORDS) {
        int32_t n = dim - first < RANDOM_WORDS ? dim - first : RANDOM_WORDS;
        fill_random_words(args->seed, args->table, (uint64_t)id * (RK_MAX_DIM / 4) + (uint64_t)first / 4,
                          words);
        if (args->normal)
            for (int i = 0; i < RANDOM_WORDS; i++) {
                float u = ((float)words[i] + 0.5f) * 0x1p-32f, v = ((float)~words[i] + 0.5f) * 0x1p-32f;
                values[i] = shift + scale * normal_quantile(low + range * u, rest_low + range * v);
            }
        else
            for (int i = 0; i < RANDOM_WORDS; i++)
                values[i] = shift + scale * (low + range * ((float)(words[i] >> 8) * 0x1p-24f));
        memcpy(out + first, values, (size_t)n * sizeof *out);
    }
}
