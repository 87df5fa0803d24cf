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

/* From row to row. */
ROW_INLINE int64_t row_bytes_of(const rk_bag_forward_args *args, int32_t dim) {
    if (args->rows.dtype == RK_U8) return args->rows.codes.stride;
    return (int64_t)dim * (args->rows.dtype == RK_F32 ? 4 : 2);
}

ROW_INLINE int64_t rows_ahead_of(int64_t row_bytes) {
    int64_t lines = (row_bytes + LINE_BYTES - 1) / LINE_BYTES;
    return lines >= LINES_AHEAD / 2 ? 2 : LINES_AHEAD / lines;
}

ROW_INLINE int64_t rows_ahead(const rk_bag_forward_args *args, int32_t dim) {
    return rows_ahead_of(row_bytes_of(args, dim));
}

/* Whether a row may end in one line more than it has lines' bytes: where rows do not begin at lines. */
ROW_INLINE bool cross_lines(uintptr_t data, uintptr_t row_bytes) {
    return data % LINE_BYTES || (row_bytes % LINE_BYTES && LINE_BYTES % row_bytes);
}

/* Rows of f32, whose bytes the compiler knows. */
ROW_INLINE void prefetch_f32(const rk_bag_forward_args *args, int64_t i, int64_t end, int32_t dim,
                             bool crosses) {
    if (i >= end) return;
    const uintptr_t row_bytes = (uintptr_t)dim * sizeof(float);
    uintptr_t row =
        (uintptr_t)args->rows.data + (uintptr_t)args->ids[i] * row_bytes; /* of a stray anywhere */
    for (uintptr_t at = 0; at < row_bytes; at += LINE_BYTES)
        __builtin_prefetch((const void *)(row + at), 0, 2);
    if (crosses) __builtin_prefetch((const void *)(row + row_bytes - 1), 0, 2);
}

ROW_INLINE bool f32_crosses_lines(const rk_bag_forward_args *args, int32_t dim) {
    return cross_lines((uintptr_t)args->rows.data, (uintptr_t)dim * sizeof(float));
}

ROW_INLINE void prefetch(const rk_bag_forward_args *args, int64_t i, int64_t end, int32_t dim) {
    if (i >= end) return;
    uintptr_t row_bytes = (uintptr_t)row_bytes_of(args, dim), data = (uintptr_t)args->rows.data,
              row = data + (uintptr_t)args->ids[i] * row_bytes; /* of a stray anywhere */
    for (uintptr_t at = 0; at < row_bytes; at += LINE_BYTES)
        __builtin_prefetch((const void *)(row + at), 0, 2);
    if (cross_lines(data, row_bytes)) __builtin_prefetch((const void *)(row + row_bytes - 1), 0, 2);
    const rk_row_codes *codes = &args->rows.codes;
    if (codes->tail_stride == codes->stride) return;
    uintptr_t tail = (uintptr_t)args->ids[i] * (uintptr_t)codes->tail_stride;
    __builtin_prefetch((const void *)((uintptr_t)codes->scales + tail), 0, 2);
    __builtin_prefetch((const void *)((uintptr_t)codes->minima + tail), 0, 2);
}

/* Whether the next ids, up to `end` of `all` at least, are rows; *checked: up to where they are. */
ROW_INLINE bool are_rows(const rk_bag_forward_args *args, int64_t end, int64_t all, int64_t *checked) {
    if (!args->strays || end <= *checked) return true;
    int64_t first = *checked, to = end > first + CHECKED_AT_ONCE ? end : first + CHECKED_AT_ONCE;
    *checked = to < all ? to : all;
    return !has_strays(args->ids + first, *checked - first, args->n_rows);
}

/* One bag of f32 rows; dim is a constant where the caller knows it, which keeps the sum in registers. */
/* crosses: a constant after inlining. */
ROW_INLINE void bag_f32(const rk_bag_forward_args *args, int64_t bag, int64_t all, int32_t dim,
                        bool crosses) {
    const float *rows = args->rows.data;
    float *out = args->out + (bag - args->first) * args->stride;
    const int64_t ahead = rows_ahead_of((int64_t)dim * (int64_t)sizeof *rows);
    row_sum sum;
    row_sum_begin(&sum, out, dim);
    for (int64_t i = args->offsets[bag]; i < args->offsets[bag + 1]; i++) {
        prefetch_f32(args, i + ahead, all, dim, crosses);
        if (args->coefficients)
            row_sum_add_times(&sum, out, args->coefficients[i], rows + args->ids[i] * dim, dim);
        else
            row_sum_add(&sum, out, rows + args->ids[i] * dim, dim);
    }
    row_sum_end(&sum, args->scales ? args->scales[bag] : 1.0f, out, dim);
}

/* As bag_f32, of rows that are f32 once they are decoded. */
ROW_INLINE void bag_decoded(const rk_bag_forward_args *args, int64_t bag, int64_t all, int32_t dim) {
    float *out = args->out + (bag - args->first) * args->stride, row[RK_MAX_DIM];
    int64_t ahead = rows_ahead(args, dim);
    row_sum sum;
    row_sum_begin(&sum, out, dim);
    for (int64_t i = args->offsets[bag]; i < args->offsets[bag + 1]; i++) {
        prefetch(args, i + ahead, all, dim);
        row_decode(&args->rows, args->ids[i], row, dim);
        if (args->coefficients)
            row_sum_add_times(&sum, out, args->coefficients[i], row, dim);
        else
            row_sum_add(&sum, out, row, dim);
    }
    row_sum_end(&sum, args->scales ? args->scales[bag] : 1.0f, out, dim);
}

/* Bags of one id each with the coefficient 1: copies of rows. */
ROW_INLINE void copy_rows(const rk_bag_forward_args *args, int32_t dim, bool f32, bool crosses) {
    float *out = args->out;
    int64_t ahead = f32 ? rows_ahead_of((int64_t)dim * (int64_t)sizeof(float)) : rows_ahead(args, dim),
            checked = args->first;
    for (int64_t b = args->first; b < args->last; b++, out += args->stride) {
        if (f32)
            prefetch_f32(args, b + ahead, args->last, dim, crosses);
        else
            prefetch(args, b + ahead, args->last, dim);
        if (!are_rows(args, b + 1, args->last, &checked)) {
            *args->strays = true;
            return;
        }
        if (f32)
            row_copy(out, (const float *)args->rows.data + args->ids[b] * dim, dim);
        else
            row_decode(&args->rows, args->ids[b], out, dim);
    }
}

/* f32, crosses: constants after inlining. */
ROW_INLINE void all_of(const rk_bag_forward_args *args, int32_t dim, int64_t begin, int64_t end, bool f32,
                       bool crosses) {
    int64_t ahead = f32 ? rows_ahead_of((int64_t)dim * (int64_t)sizeof(float)) : rows_ahead(args, dim);
    for (int64_t i = begin; i < end && i < begin + ahead; i++)
        if (f32)
            prefetch_f32(args, i, end, dim, crosses);
        else
            prefetch(args, i, end, dim);
    if (args->single) {
        copy_rows(args, dim, f32, crosses);
        return;
    }
    int64_t checked = begin;
    for (int64_t b = args->first; b < args->last; b++) {
        if (!are_rows(args, args->offsets[b + 1], end, &checked)) {
            *args->strays = true;
            return;
        }
        if (f32)
            bag_f32(args, b, end, dim, crosses);
        else
            bag_decoded(args, b, end, dim);
    }
}

/* dim: a constant after inlining. */
ROW_INLINE void all_bags(const rk_bag_forward_args *args, int32_t dim) {
    int64_t begin = args->single ? args->first : args->offsets[args->first],
            end = args->single ? args->last : args->offsets[args->last];
    const bool f32 = args->rows.dtype == RK_F32;
    if (!f32)
        all_of(args, dim, begin, end, false, false);
    else if (f32_crosses_lines(args, dim))
        all_of(args, dim, begin, end, true, true);
    else
        all_of(args, dim, begin, end, true, false);
}

void RK_KERNEL_NAME(rk_bag_forward)(const rk_bag_forward_args *in) {
    const rk_bag_forward_args own = *in, *args = &own; /* its own: stores of rows cannot change it */
    switch (args->rows.dim) {
        case 1:
            all_bags(args, 1);
            break;
        case 8:
            all_bags(args, 8);
            break;
        case 16:
            all_bags(args, 16);
            break;
        case 32:
            all_bags(args, 32);
            break;
        case 64:
            all_bags(args, 64);
            break;
        case 128:
            all_bags(args, 128);
            break;
        default:
            all_bags(args, args->rows.dim);
            break;
    }
}
