/* The bodies of rk_row_load, rk_row_store, rk_bf16_round, rk_f32_to_16_bits, rk_f32_from_16_bits and
 * rk_rows_quantize (kernels/kernels.h), compiled once for each instruction set. */
#include "kernels/kernel_list.h"
#include "kernels/inline/row_load_store.h"

void RK_KERNEL_NAME(rk_row_load)(const rk_rows *rows, int64_t row, float *out) {
    load_row(rows, row, out, rows->dim);
}

#define STORE_ROW(name, dim)                                                            \
    static void store_row_##name(const rk_rows *rows, int64_t row, const float *values, \
                                 const uint32_t words[2]) {                             \
        store_row(rows, row, values, words, dim);                                       \
    }
ROW_DEFINE_BY_DIM(STORE_ROW, rows->dim)

void RK_KERNEL_NAME(rk_row_store)(const rk_rows *rows, int64_t row, const float *values, uint64_t seed,
                                  uint64_t counter) {
    uint32_t words[4] = {0};
    if (rows->dtype != RK_F32) rk_rng_draw_four_words(seed, 0, counter, words);
    ROW_CALL_BY_DIM(rows->dim, store_row, rows, row, values, words);
}

void RK_KERNEL_NAME(rk_bf16_round)(const float *restrict from, void *restrict to, int64_t n, bool wide) {
    uint16_t *restrict halves = to;
    float *restrict floats = to;
    if (wide)
        for (int64_t i = 0; i < n; i++) floats[i] = rk_bf16_to_f32(rk_bf16_from_f32(from[i]));
    else
        for (int64_t i = 0; i < n; i++) halves[i] = rk_bf16_from_f32(from[i]);
}

void RK_KERNEL_NAME(rk_f32_to_16_bits)(const float *restrict from, int64_t n, bool bf16,
                                       uint16_t *restrict out) {
    if (bf16)
        for (int64_t i = 0; i < n; i++) out[i] = rk_bf16_from_f32_finite(from[i]);
    else
        for (int64_t i = 0; i < n; i++) out[i] = rk_f16_from_f32_finite(from[i]);
}

void RK_KERNEL_NAME(rk_f32_from_16_bits)(const uint16_t *restrict from, int64_t n, bool bf16,
                                         float *restrict out) {
    if (bf16)
        for (int64_t i = 0; i < n; i++) out[i] = rk_bf16_to_f32(from[i]);
    else
        for (int64_t i = 0; i < n; i++) out[i] = rk_f16_to_f32(from[i]);
}

enum { INFINITE = 0x7F800000 };

/* False: the row's values span no finite range. */
static inline bool find_row_range(const float *row, int64_t dim, float *least, float *greatest) {
    int32_t low = INT32_MAX, high = INT32_MIN; /* of whole numbers the compiler compares many at once */
    for (int64_t i = 0; i < dim; i++) {
        int32_t key = rk_f32_bits_to_ordered((int32_t)rk_f32_bits(row[i]));
        low = key < low ? key : low;
        high = key > high ? key : high;
    }
    *least = rk_f32_from_bits((uint32_t)rk_f32_bits_to_ordered(low));
    *greatest = rk_f32_from_bits((uint32_t)rk_f32_bits_to_ordered(high));
    return high < INFINITE && low > rk_f32_bits_to_ordered((int32_t)(INT32_MIN | INFINITE)) &&
           *greatest - *least < rk_f32_from_bits(INFINITE);
}

/* To the nearest whole number, half to even, of 0 .. most: the sum with ROUND has no bits below 1. */
static inline int32_t quantize_value(float value, float least, float inverse, int32_t most) {
    const float ROUND = 0x1.8p23f;
    int32_t code = (int32_t)(((value - least) * inverse + ROUND) - ROUND);
    code = code < 0 ? 0 : code;
    return code > most ? most : code;
}

static inline void quantize_values(const float *row, int64_t n, float least, float inverse, int32_t most,
                                   uint8_t *restrict codes) {
    for (int64_t i = 0; i < n; i++) codes[i] = (uint8_t)quantize_value(row[i], least, inverse, most);
}

static bool quantize_row_int8(const float *row, int64_t dim, uint8_t *out) {
    float least, greatest;
    if (!find_row_range(row, dim, &least, &greatest)) return false;
    float range = greatest - least, tail[2] = {range / 255.0f, least}, inverse = 255.0f / (range + 1e-8f);
    quantize_values(row, dim, least, inverse, 255, out);
    memcpy(out + dim, tail, sizeof tail);
    return true;
}

static bool quantize_row_int4(const float *row, int64_t dim, uint8_t *out) {
    enum { BLOCK = 256 };
    float least, greatest;
    if (!find_row_range(row, dim, &least, &greatest)) return false;
    uint16_t least_half = rk_f16_from_f32(least);
    least = rk_f16_to_f32(least_half);
    float range = greatest - least, scale = range == 0 ? 1.0f : range / 15;
    scale = rk_f16_to_f32(rk_f16_from_f32(scale));
    const float infinite = rk_f32_from_bits(INFINITE);
    if (scale == 0 || 1.0f / scale == infinite) scale = 1.0f;
    uint16_t tail[2] = {rk_f16_from_f32(scale), least_half};
    float inverse = 1.0f / scale;
    if (least == -infinite || least == infinite || scale == infinite) return false;
    for (int64_t i = 0; i < dim; i += BLOCK) {
        int64_t n = dim - i < BLOCK ? dim - i : BLOCK;
        uint8_t codes[BLOCK + 1];
        quantize_values(row + i, n, least, inverse, 15, codes);
        codes[n] = 0; /* beside the last one of an odd number */
        for (int64_t p = 0; p < (n + 1) / 2; p++)
            out[i / 2 + p] = (uint8_t)(codes[2 * p] | codes[2 * p + 1] << 4);
    }
    memcpy(out + (dim + 1) / 2, tail, sizeof tail);
    return true;
}

void RK_KERNEL_NAME(rk_rows_quantize)(const float *from, int64_t n, int64_t dim, int bits, uint8_t *out,
                                      int64_t stride, int64_t *failed) {
    int64_t r = 0;
    while (r < n &&
           (bits == 8 ? quantize_row_int8 : quantize_row_int4)(from + r * dim, dim, out + r * stride))
        r++;
    *failed = r < n ? r : -1;
}
