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

/* Constants after inlining, in all of these: how the rows lie, whether they cross cache lines, and dim, where
 * it is a common one. */

ROW_INLINE int64_t row_stride_bytes(const rk_bag_forward_args *args, int32_t dim, row_layout layout) {
    if (layout == ROW_F32) return (int64_t)dim * (int64_t)sizeof(float);
    return args->rows.dtype == RK_U8 ? args->rows.codes.stride : (int64_t)dim * 2;
}

ROW_INLINE int64_t count_rows_to_prefetch(const rk_bag_forward_args *args, int32_t dim, row_layout layout) {
    int64_t lines = (row_stride_bytes(args, dim, layout) + LINE_BYTES - 1) / LINE_BYTES;
    return lines >= LINES_AHEAD / 2 ? 2 : LINES_AHEAD / lines;
}

/* Whether a row may end in one line more than it has lines' bytes: where rows do not begin at lines. */
ROW_INLINE bool rows_cross_cache_lines(const rk_bag_forward_args *args, int32_t dim, row_layout layout) {
    uintptr_t data = (uintptr_t)args->rows.data, row_bytes = (uintptr_t)row_stride_bytes(args, dim, layout);
    return data % LINE_BYTES || (row_bytes % LINE_BYTES && LINE_BYTES % row_bytes);
}

ROW_INLINE void prefetch_row(const rk_bag_forward_args *args, int64_t i, int64_t end, int32_t dim,
                             row_layout layout, bool crosses) {
    if (i >= end) return;
    const uintptr_t row_bytes = (uintptr_t)row_stride_bytes(args, dim, layout);
    uintptr_t row =
        (uintptr_t)args->rows.data + (uintptr_t)args->ids[i] * row_bytes; /* of a stray anywhere */
    for (uintptr_t at = 0; at < row_bytes; at += LINE_BYTES)
        __builtin_prefetch((const void *)(row + at), 0, 2);
    if (crosses) __builtin_prefetch((const void *)(row + row_bytes - 1), 0, 2);
    const rk_row_codes *codes = &args->rows.codes;
    if ((layout != ROW_CODES_8 && layout != ROW_CODES_4) || codes->tail_stride == codes->stride) return;
    uintptr_t tail = (uintptr_t)args->ids[i] * (uintptr_t)codes->tail_stride;
    __builtin_prefetch((const void *)((uintptr_t)codes->scales + tail), 0, 2);
    __builtin_prefetch((const void *)((uintptr_t)codes->minima + tail), 0, 2);
}

/* Whether the next ids, up to `end` of `all` at least, are rows; *checked: up to where they are. */
ROW_INLINE bool check_next_ids_are_rows(const rk_bag_forward_args *args, int64_t end, int64_t all,
                                        int64_t *checked) {
    if (!args->strays || end <= *checked) return true;
    int64_t first = *checked, to = end > first + CHECKED_AT_ONCE ? end : first + CHECKED_AT_ONCE;
    *checked = to < all ? to : all;
    return !has_ids_out_of_range(args->ids + first, *checked - first, args->n_rows);
}

/* weighted: by coefficients; a constant after inlining, so that no row asks. */
ROW_INLINE void add_rows_of_bag(const rk_bag_forward_args *args, int64_t bag, int64_t all, int32_t dim,
                                row_layout layout, bool crosses, bool weighted, row_sum *sum, float *out) {
    const int64_t ahead = count_rows_to_prefetch(args, dim, layout);
    for (int64_t i = args->offsets[bag]; i < args->offsets[bag + 1]; i++) {
        prefetch_row(args, i + ahead, all, dim, layout, crosses);
        row_sum_add_decoded(sum, out, weighted, weighted ? args->coefficients[i] : 1.0f,
                            row_locate_values(&args->rows, args->ids[i], layout, dim), layout, dim);
    }
}

/* One bag; dim is a constant where the caller knows it, which keeps the sum in registers. */
ROW_INLINE void sum_bag(const rk_bag_forward_args *args, int64_t bag, int64_t all, int32_t dim,
                        row_layout layout, bool crosses) {
    float *out = args->out + (bag - args->first) * args->stride;
    row_sum sum;
    row_sum_begin(&sum, out, dim);
    if (args->coefficients)
        add_rows_of_bag(args, bag, all, dim, layout, crosses, true, &sum, out);
    else
        add_rows_of_bag(args, bag, all, dim, layout, crosses, false, &sum, out);
    row_sum_end(&sum, args->scales ? args->scales[bag] : 1.0f, out, dim);
}

/* Bags of one id each with the coefficient 1: copies of rows. */
ROW_INLINE void copy_single_id_rows(const rk_bag_forward_args *args, int32_t dim, row_layout layout,
                                    bool crosses) {
    float *out = args->out;
    int64_t ahead = count_rows_to_prefetch(args, dim, layout), checked = args->first;
    for (int64_t b = args->first; b < args->last; b++, out += args->stride) {
        prefetch_row(args, b + ahead, args->last, dim, layout, crosses);
        if (!check_next_ids_are_rows(args, b + 1, args->last, &checked)) {
            *args->strays = true;
            return;
        }
        row_decode(row_locate_values(&args->rows, args->ids[b], layout, dim), layout, out, dim);
    }
}

ROW_INLINE void pool_bags(const rk_bag_forward_args *args, int32_t dim, row_layout layout, bool crosses) {
    int64_t begin = args->single ? args->first : args->offsets[args->first],
            end = args->single ? args->last : args->offsets[args->last], checked = begin, first = begin;
    first += count_rows_to_prefetch(args, dim, layout) < end - begin
                 ? count_rows_to_prefetch(args, dim, layout)
                 : end - begin;
    for (int64_t i = begin; i < first; i++) prefetch_row(args, i, first, dim, layout, crosses);
    if (args->single) {
        copy_single_id_rows(args, dim, layout, crosses);
        return;
    }
    for (int64_t b = args->first; b < args->last; b++) {
        if (!check_next_ids_are_rows(args, args->offsets[b + 1], end, &checked)) {
            *args->strays = true;
            return;
        }
        sum_bag(args, b, end, dim, layout, crosses);
    }
}

ROW_INLINE void pool_by_layout(const rk_bag_forward_args *args, int32_t dim) {
    switch (row_layout_of(&args->rows)) {
        case ROW_F32:
            if (rows_cross_cache_lines(args, dim, ROW_F32))
                pool_bags(args, dim, ROW_F32, true);
            else
                pool_bags(args, dim, ROW_F32, false);
            break;
        case ROW_BF16:
            pool_bags(args, dim, ROW_BF16, rows_cross_cache_lines(args, dim, ROW_BF16));
            break;
        case ROW_F16:
            pool_bags(args, dim, ROW_F16, rows_cross_cache_lines(args, dim, ROW_F16));
            break;
        case ROW_CODES_8:
            pool_bags(args, dim, ROW_CODES_8, rows_cross_cache_lines(args, dim, ROW_CODES_8));
            break;
        case ROW_CODES_4:
            pool_bags(args, dim, ROW_CODES_4, rows_cross_cache_lines(args, dim, ROW_CODES_4));
            break;
    }
}

void RK_KERNEL_NAME(rk_bag_forward)(const rk_bag_forward_args *in) {
    const rk_bag_forward_args own = *in, *args = &own; /* its own: stores of rows cannot change it */
    ROW_SWITCH_DIM(args->rows.dim, pool_by_layout(args, DIM));
}
