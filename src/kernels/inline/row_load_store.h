/* Rows as f32 and back: included by the kernels that read and write rows, once for each instruction set. */
#ifndef RK_KERNELS_INLINE_ROW_LOAD_STORE_H
#define RK_KERNELS_INLINE_ROW_LOAD_STORE_H

#include <string.h>

#include "base/float16.h"
#include "base/rng.h"
#include "kernels/inline/column_random_bits.h"
#include "kernels/inline/row_decode.h"
#include "kernels/rows.h"

/* dim: the rows', a constant where the caller knows it, here and below. */
ROW_INLINE void load_row(const rk_rows *rows, int64_t row, float *restrict out, int32_t dim) {
    row_layout layout = row_layout_of(rows);
    row_decode(row_locate_values(rows, row, layout, dim), layout, out, dim);
}

ROW_INLINE void store_row(const rk_rows *rows, int64_t row, const float *restrict values, uint64_t seed,
                          uint64_t counter, int32_t dim) {
    if (rows->dtype == RK_F32) {
        memcpy((float *)rows->data + row * dim, values, (size_t)dim * sizeof *values);
        return;
    }
    uint16_t *restrict to = (uint16_t *)rows->data + row * dim;
    uint32_t words[4];
    int32_t column = rows->first_column;
    rk_rng_draw_four_words(seed, 0, counter, words);
    if (rows->dtype == RK_BF16)
        for (int32_t k = 0; k < dim; k++)
            to[k] = rk_bf16_from_f32_stochastic(values[k], column_random_bits(words, column + k));
    else
        for (int32_t k = 0; k < dim; k++)
            to[k] = rk_f16_from_f32_stochastic(values[k], column_random_bits(words, column + k));
}

#endif
