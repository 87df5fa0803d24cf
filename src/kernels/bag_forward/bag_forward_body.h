/* The body of rk_bag_forward (kernels/kernels.h); included once for each instruction set. */
#include <string.h>

#include "base/float16.h"
#include "kernels/kernel_list.h"

enum { PREFETCH_AHEAD = 16 };

/* One bag of f32 rows; dim is a constant where the caller knows it, which keeps the sums in registers. */
static inline __attribute__((always_inline)) void bag_f32(const rk_bag_forward_args *args, int64_t bag, int32_t dim) {
    const float *rows = args->rows.data;
    float *out = args->out + bag * args->stride;
    int64_t begin = args->offsets[bag], end = args->offsets[bag + 1];
    float sum[128];
    float *to = dim <= 128 ? sum : out;
    memset(to, 0, (size_t)dim * sizeof *to);
    for (int64_t i = begin; i < end; i++) {
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

static void bag_half(const rk_bag_forward_args *args, int64_t bag) {
    int32_t dim = args->rows.dim;
    const uint16_t *rows = args->rows.data;
    float *out = args->out + bag * args->stride;
    memset(out, 0, (size_t)dim * sizeof *out);
    for (int64_t i = args->offsets[bag]; i < args->offsets[bag + 1]; i++) {
        const uint16_t *row = rows + args->ids[i] * dim;
        float c = args->coefficients ? args->coefficients[i] : 1.0f;
        if (args->rows.dtype == RK_BF16)
            for (int32_t k = 0; k < dim; k++) out[k] += c * rk_bf16_to_f32(row[k]);
        else
            for (int32_t k = 0; k < dim; k++) out[k] += c * rk_f16_to_f32(row[k]);
    }
    if (args->scales)
        for (int32_t k = 0; k < dim; k++) out[k] *= args->scales[bag];
}

static void prefetch(const rk_bag_forward_args *args, int64_t i, int64_t end) {
    if (i >= end) return;
    int64_t row_bytes = args->rows.dim * (args->rows.dtype == RK_F32 ? 4 : 2);
    const char *row = (const char *)args->rows.data + args->ids[i] * row_bytes;
    for (int64_t at = 0; at < row_bytes; at += 64) __builtin_prefetch(row + at);
}

void RK_KERNEL_NAME(rk_bag_forward)(const rk_bag_forward_args *args) {
    int64_t end = args->offsets[args->last], fetched = args->offsets[args->first];
    for (int64_t bag = args->first; bag < args->last; bag++) {
        for (int64_t need = args->offsets[bag + 1] + PREFETCH_AHEAD; fetched < need; fetched++) prefetch(args, fetched, end);
        if (args->rows.dtype != RK_F32) {
            bag_half(args, bag);
            continue;
        }
        switch (args->rows.dim) {
            case 1: bag_f32(args, bag, 1); break;
            case 8: bag_f32(args, bag, 8); break;
            case 16: bag_f32(args, bag, 16); break;
            case 32: bag_f32(args, bag, 32); break;
            case 64: bag_f32(args, bag, 64); break;
            case 128: bag_f32(args, bag, 128); break;
            default: bag_f32(args, bag, args->rows.dim); break;
        }
    }
}
