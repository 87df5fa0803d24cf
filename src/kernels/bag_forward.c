/* The body of rk_bag_forward (kernels/kernels.h), compiled once for each instruction set. */
#include <stdbool.h>
#include <string.h>

#include "base/float16.h"
#include "kernels/ids_check.h"
#include "kernels/kernel_list.h"
#include "kernels/inline/row_decode.h"
#include "kernels/inline/row_sum.h"

/* Cache lines of rows ahead that are on their way, to the second cache: fewer lines may be on their way to
 * the first. */
enum { LINE_BYTES = 64, LINES_AHEAD = 256, CHECKED_AT_ONCE = 256 };

/* From row to row. f32: the rows are, a constant where the caller knows it, here and below. */
ROW_INLINE int64_t row_stride_bytes(const rk_bag_forward_args *args, int32_t dim, bool f32) {
    if (f32) return (int64_t)dim * (int64_t)sizeof(float);
    return args->rows.dtype == RK_U8 ? args->rows.codes.stride : (int64_t)dim * 2;
}

ROW_INLINE int64_t rows_ahead(const rk_bag_forward_args *args, int32_t dim, bool f32) {
    int64_t lines = (row_stride_bytes(args, dim, f32) + LINE_BYTES - 1) / LINE_BYTES;
    return lines >= LINES_AHEAD / 2 ? 2 : LINES_AHEAD / lines;
}

/* Whether a row may end in one line more than it has lines' bytes: where rows do not begin at lines. */
ROW_INLINE bool rows_cross_cache_lines(const rk_bag_forward_args *args, int32_t dim, bool f32) {
    uintptr_t data = (uintptr_t)args->rows.data, row_bytes = (uintptr_t)row_stride_bytes(args, dim, f32);
    return data % LINE_BYTES || (row_bytes % LINE_BYTES && LINE_BYTES % row_bytes);
}

ROW_INLINE void prefetch_row(const rk_bag_forward_args *args, int64_t i, int64_t end, int32_t dim, bool f32,
                             bool crosses) {
    if (i >= end) return;
    const uintptr_t row_bytes = (uintptr_t)row_stride_bytes(args, dim, f32);
    uintptr_t row =
        (uintptr_t)args->rows.data + (uintptr_t)args->ids[i] * row_bytes; /* of a stray anywhere */
    for (uintptr_t at = 0; at < row_bytes; at += LINE_BYTES)
        __builtin_prefetch((const void *)(row + at), 0, 2);
    if (crosses) __builtin_prefetch((const void *)(row + row_bytes - 1), 0, 2);
    const rk_row_codes *codes = &args->rows.codes;
    if (f32 || codes->tail_stride == codes->stride) return;
    uintptr_t tail = (uintptr_t)args->ids[i] * (uintptr_t)codes->tail_stride;
    __builtin_prefetch((const void *)((uintptr_t)codes->scales + tail), 0, 2);
    __builtin_prefetch((const void *)((uintptr_t)codes->minima + tail), 0, 2);
}

/* Whether the next ids, up to `end` of `all` at least, are rows; *checked: up to where they are. */
ROW_INLINE bool check_ids_are_rows(const rk_bag_forward_args *args, int64_t end, int64_t all,
                                   int64_t *checked) {
    if (!args->strays || end <= *checked) return true;
    int64_t first = *checked, to = end > first + CHECKED_AT_ONCE ? end : first + CHECKED_AT_ONCE;
    *checked = to < all ? to : all;
    return !has_ids_out_of_range(args->ids + first, *checked - first, args->n_rows);
}

/* f32: where it stands; else decoded into `decoded`. */
ROW_INLINE const float *row_at(const rk_bag_forward_args *args, int64_t row, float *decoded, int32_t dim,
                               bool f32) {
    if (f32) return (const float *)args->rows.data + row * dim;
    row_decode(&args->rows, row, decoded, dim);
    return decoded;
}

/* weighted: by coefficients; a constant after inlining, so that no row asks. */
ROW_INLINE void add_rows(const rk_bag_forward_args *args, int64_t bag, int64_t all, int32_t dim, bool f32,
                         bool crosses, bool weighted, row_sum *sum, float *out) {
    float decoded[RK_MAX_DIM];
    const int64_t ahead = rows_ahead(args, dim, f32);
    for (int64_t i = args->offsets[bag]; i < args->offsets[bag + 1]; i++) {
        prefetch_row(args, i + ahead, all, dim, f32, crosses);
        const float *row = row_at(args, args->ids[i], decoded, dim, f32);
        if (weighted)
            row_sum_add_times(sum, out, args->coefficients[i], row, dim);
        else
            row_sum_add(sum, out, row, dim);
    }
}

/* One bag; dim is a constant where the caller knows it, which keeps the sum in registers. */
ROW_INLINE void sum_bag(const rk_bag_forward_args *args, int64_t bag, int64_t all, int32_t dim, bool f32,
                        bool crosses) {
    float *out = args->out + (bag - args->first) * args->stride;
    row_sum sum;
    row_sum_begin(&sum, out, dim);
    if (args->coefficients)
        add_rows(args, bag, all, dim, f32, crosses, true, &sum, out);
    else
        add_rows(args, bag, all, dim, f32, crosses, false, &sum, out);
    row_sum_end(&sum, args->scales ? args->scales[bag] : 1.0f, out, dim);
}

/* Bags of one id each with the coefficient 1: copies of rows. */
ROW_INLINE void copy_rows(const rk_bag_forward_args *args, int32_t dim, bool f32, bool crosses) {
    float *out = args->out;
    int64_t ahead = rows_ahead(args, dim, f32), checked = args->first;
    for (int64_t b = args->first; b < args->last; b++, out += args->stride) {
        prefetch_row(args, b + ahead, args->last, dim, f32, crosses);
        if (!check_ids_are_rows(args, b + 1, args->last, &checked)) {
            *args->strays = true;
            return;
        }
        if (f32)
            row_copy(out, (const float *)args->rows.data + args->ids[b] * dim, dim);
        else
            row_decode(&args->rows, args->ids[b], out, dim);
    }
}

ROW_INLINE void pool_bags(const rk_bag_forward_args *args, int32_t dim, bool f32, bool crosses) {
    int64_t begin = args->single ? args->first : args->offsets[args->first],
            end = args->single ? args->last : args->offsets[args->last], checked = begin;
    const int64_t first = begin + rows_ahead(args, dim, f32) < end ? begin + rows_ahead(args, dim, f32) : end;
    for (int64_t i = begin; i < first; i++) prefetch_row(args, i, first, dim, f32, crosses);
    if (args->single) {
        copy_rows(args, dim, f32, crosses);
        return;
    }
    for (int64_t b = args->first; b < args->last; b++) {
        if (!check_ids_are_rows(args, args->offsets[b + 1], end, &checked)) {
            *args->strays = true;
            return;
        }
        sum_bag(args, b, end, dim, f32, crosses);
    }
}

/* dim: a constant after inlining; and so are f32, and whether its rows cross lines. */
ROW_INLINE void pool_by_layout(const rk_bag_forward_args *args, int32_t dim) {
    if (args->rows.dtype != RK_F32)
        pool_bags(args, dim, false, rows_cross_cache_lines(args, dim, false));
    else if (rows_cross_cache_lines(args, dim, true))
        pool_bags(args, dim, true, true);
    else
        pool_bags(args, dim, true, false);
}

void RK_KERNEL_NAME(rk_bag_forward)(const rk_bag_forward_args *in) {
    const rk_bag_forward_args own = *in, *args = &own; /* its own: stores of rows cannot change it */
    switch (args->rows.dim) {
        case 1:
            pool_by_layout(args, 1);
            break;
        case 8:
            pool_by_layout(args, 8);
            break;
        case 16:
            pool_by_layout(args, 16);
            break;
        case 32:
            pool_by_layout(args, 32);
            break;
        case 64:
            pool_by_layout(args, 64);
            break;
        case 128:
            pool_by_layout(args, 128);
            break;
        default:
            pool_by_layout(args, args->rows.dim);
            break;
    }
}
