/* The body of rk_bag_forward (kernels/kernels.h); included once for each instruction set. */
#include <stdbool.h>
#include <string.h>

#include "base/float16.h"
#include "kernels/kernel_list.h"

/* Rows ahead that are on their way: about BYTES_AHEAD of them. */
enum { BYTES_AHEAD = 2048, MIN_AHEAD = 6, MAX_AHEAD = 32 };

static inline __attribute__((always_inline)) int64_t rows_ahead(const rk_bag_forward_args *args, int32_t dim) {
    int64_t n = BYTES_AHEAD / ((int64_t)dim * (args->rows.dtype == RK_F32 ? 4 : 2));
    return n < MIN_AHEAD ? MIN_AHEAD : n > MAX_AHEAD ? MAX_AHEAD : n;
}

static inline __attribute__((always_inline)) void prefetch(const rk_bag_forward_args *args, int64_t i, int64_t end, int32_t dim) {
    if (i >= end) return;
    int64_t row_bytes = (int64_t)dim * (args->rows.dtype == RK_F32 ? 4 : 2);
    const char *row = (const char *)args->rows.data + args->ids[i] * row_bytes;
    for (int64_t at = 0; at < row_bytes; at += 64) __builtin_prefetch(row + at);
}

/* One bag of f32 rows; dim is a constant where the caller knows it, which keeps the sums in registers. */
static inline __attribute__((always_inline)) void bag_f32(const rk_bag_forward_args *args, int64_t bag, int64_t all, int32_t dim) {
    const float *rows = args->rows.data;
    float *out = args->out + (bag - args->first) * args->stride;
    int64_t begin = args->offsets[bag], end = args->offsets[bag + 1];
    float sum[128];
    float *to = dim <= 128 ? sum : out;
    memset(to, 0, (size_t)dim * sizeof *to);
    for (int64_t i = begin; i < end; i++) {
        prefetch(args, i + rows_ahead(args, dim), all, dim);
        const float *row = rows + args->ids[i] * dim;
        if (args->coefficients) {
            float c = args->coefficients[i];
            for (int32_t k = 0; k < dim; k++) to[k] += c * row[k];
        } else {
            for (int32_t k = 0; k < dim; k++) to[k] += row[k];
        }
    }
    float scale = args->scales ? args->scales[bag] : 1.0f;
    for (int32_t k = 0; k < dim; k++) out[k] = scale * to[k];
}

static inline __attribute__((always_inline)) void bag_half(const rk_bag_forward_args *args, int64_t bag, int64_t all, int32_t dim, bool bf16) {
    const uint16_t *rows = args->rows.data;
    float *out = args->out + (bag - args->first) * args->stride, sum[128], *to = dim <= 128 ? sum : out;
    memset(to, 0, (size_t)dim * sizeof *to);
    for (int64_t i = args->offsets[bag]; i < args->offsets[bag + 1]; i++) {
        prefetch(args, i + rows_ahead(args, dim), all, dim);
        const uint16_t *row = rows + args->ids[i] * dim;
        float c = args->coefficients ? args->coefficients[i] : 1.0f;
        for (int32_t k = 0; k < dim; k++) to[k] += c * (bf16 ? rk_bf16_to_f32(row[k]) : rk_f16_to_f32(row[k]));
    }
    float scale = args->scales ? args->scales[bag] : 1.0f;
    for (int32_t k = 0; k < dim; k++) out[k] = scale * to[k];
}

/* Bags of one id each with the coefficient 1: copies of rows. */
static inline __attribute__((always_inline)) void copy_rows(const rk_bag_forward_args *args, int32_t dim) {
    float *out = args->out;
    int64_t ahead = rows_ahead(args, dim);
    for (int64_t b = args->first; b < args->last; b++, out += args->stride) {
        prefetch(args, b + ahead, args->last, dim);
        const uint16_t *halves = (const uint16_t *)args->rows.data + args->ids[b] * dim;
        const float *row = (const float *)args->rows.data + args->ids[b] * dim;
        if (args->rows.dtype == RK_F32)
            for (int32_t k = 0; k < dim; k++) out[k] = row[k];
        else if (args->rows.dtype == RK_BF16)
            for (int32_t k = 0; k < dim; k++) out[k] = rk_bf16_to_f32(halves[k]);
        else
            for (int32_t k = 0; k < dim; k++) out[k] = rk_f16_to_f32(halves[k]);
    }
}

/* dim: a constant after inlining. */
static inline __attribute__((always_inline)) void all_bags(const rk_bag_forward_args *args, int32_t dim) {
    int64_t begin = args->single ? args->first : args->offsets[args->first], end = args->single ? args->last : args->offsets[args->last];
    for (int64_t i = begin; i < begin + rows_ahead(args, dim); i++) prefetch(args, i, end, dim);
    if (args->single) {
        copy_rows(args, dim);
        return;
    }
    for (int64_t b = args->first; b < args->last; b++) {
        if (args->rows.dtype == RK_F32)
            bag_f32(args, b, end, dim);
        else
            bag_half(args, b, end, dim, args->rows.dtype == RK_BF16);
    }
}

void RK_KERNEL_NAME(rk_bag_forward)(const rk_bag_forward_args *args) {
    switch (args->rows.dim) {
        case 1: all_bags(args, 1); break;
        case 8: all_bags(args, 8); break;
        case 16: all_bags(args, 16); break;
        case 32: all_bags(args, 32); break;
        case 64: all_bags(args, 64); break;
        case 128: all_bags(args, 128); break;
        default: all_bags(args, args->rows.dim); break;
    }
}
