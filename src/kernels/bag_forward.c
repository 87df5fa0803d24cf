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

/* Whether the ids from *checked on, up to `end` of `all` at least, are rows; *checked: up to where they are.
 */
ROW_INLINE bool check_next_ids_are_rows(const rk_bag_forward_args *args, int64_t *checked, int64_t end,
                                        int64_t all) {
    int64_t first = *checked, to = end > first + CHECKED_AT_ONCE ? end : first + CHECKED_AT_ONCE;
    *checked = to < all ? to : all;
    if (!has_ids_out_of_range(args->ids + first, *checked - first, args->n_rows)) return true;
    *args->strays = true;
    return false;
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
    const int64_t ahead = count_rows_to_prefetch(args, dim, layout), last = args->last;
    int64_t checked = args->strays ? args->first : last;
    for (int64_t b = args->first; b < last;) {
        if (b == checked && !check_next_ids_are_rows(args, &checked, b + 1, last)) return;
        for (; b < checked; b++, out += args->stride) {
            prefetch_row(args, b + ahead, last, dim, layout, crosses);
            row_decode(row_locate_values(&args->rows, args->ids[b], layout, dim), layout, out, dim);
        }
    }
}

ROW_INLINE void sum_bags(const rk_bag_forward_args *args, int32_t dim, row_layout layout, bool crosses) {
    const int64_t all = args->offsets[args->last];
    int64_t checked = args->strays ? args->offsets[args->first] : all;
    for (int64_t b = args->first; b < args->last; b++) {
        if (args->offsets[b + 1] > checked &&
            !check_next_ids_are_rows(args, &checked, args->offsets[b + 1], all))
            return;
        sum_bag(args, b, all, dim, layout, crosses);
    }
}

ROW_INLINE void pool_bags(const rk_bag_forward_args *args, int32_t dim, row_layout layout, bool crosses) {
    int64_t first = args->single ? args->first : args->offsets[args->first],
            end = args->single ? args->last : args->offsets[args->last],
            ahead = count_rows_to_prefetch(args, dim, layout);
    for (int64_t i = first; i < end && i < first + ahead; i++)
        prefetch_row(args, i, end, dim, layout, crosses);
    if (args->single)
        copy_single_id_rows(args, dim, layout, crosses);
    else
        sum_bags(args, dim, layout, crosses);
}

static __attribute__((noinline)) void pool_dim_any(const rk_bag_forward_args *args) {
    const row_layout layout = row_layout_of(&args->rows);
    pool_bags(args, args->rows.dim, layout, rows_cross_cache_lines(args, args->rows.dim, layout));
}

/* A function of its own for f32 rows of each common dim, and for rows of other layouts of those that are
 * whole vectors. */
#define POOL_LAYOUT(layout, dim)                                                                   \
    static __attribute__((noinline)) void pool_##layout##_##dim(const rk_bag_forward_args *args) { \
        bool crosses = rows_cross_cache_lines(args, dim, layout);                                  \
        if (layout == ROW_F32 && !crosses)                                                         \
            pool_bags(args, dim, layout, false);                                                   \
        else                                                                                       \
            pool_bags(args, dim, layout, crosses);                                                 \
    }
#define POOL_F32(name, dim) POOL_LAYOUT(ROW_F32, dim)
ROW_COMMON_DIMS(POOL_F32)

#define POOL_SHORT_ROWS(dim)                                      \
    static void pool_dim_##dim(const rk_bag_forward_args *args) { \
        if (row_layout_of(&args->rows) == ROW_F32)                \
            pool_ROW_F32_##dim(args);                             \
        else                                                      \
            pool_dim_any(args);                                   \
    }
#define POOL_VECTORS(dim)                                         \
    POOL_LAYOUT(ROW_BF16, dim)                                    \
    POOL_LAYOUT(ROW_F16, dim)                                     \
    POOL_LAYOUT(ROW_CODES_8, dim)                                 \
    POOL_LAYOUT(ROW_CODES_4, dim)                                 \
    static void pool_dim_##dim(const rk_bag_forward_args *args) { \
        switch (row_layout_of(&args->rows)) {                     \
            case ROW_F32:                                         \
                pool_ROW_F32_##dim(args);                         \
                break;                                            \
            case ROW_BF16:                                        \
                pool_ROW_BF16_##dim(args);                        \
                break;                                            \
            case ROW_F16:                                         \
                pool_ROW_F16_##dim(args);                         \
                break;                                            \
            case ROW_CODES_8:                                     \
                pool_ROW_CODES_8_##dim(args);                     \
                break;                                            \
            case ROW_CODES_4:                                     \
                pool_ROW_CODES_4_##dim(args);                     \
                break;                                            \
        }                                                         \
    }
POOL_SHORT_ROWS(1)
POOL_SHORT_ROWS(8)
POOL_VECTORS(16)
POOL_VECTORS(32)
POOL_VECTORS(64)
POOL_VECTORS(128)

void RK_KERNEL_NAME(rk_bag_forward)(const rk_bag_forward_args *in) {
    const rk_bag_forward_args own = *in, *args = &own; /* its own: stores of rows cannot change it */
    ROW_CALL_BY_DIM(args->rows.dim, pool_dim, args);
}
