/* Rows as f32 and back: included by the kernels that read and write rows, once for each instruction set. */
#ifndef RK_KERNELS_INLINE_ROW_LOAD_STORE_H
#define RK_KERNELS_INLINE_ROW_LOAD_STORE_H

#include <string.h>

#include "base/float16.h"
#include "base/rng.h"
#include "kernels/inline/column_random_bits.h"
#include "kernels/inline/row_decode.h"
#include "kernels/inline/row_rounding.h"
#include "kernels/rows.h"

/* dim: the rows', a constant where the caller knows it, here and below. */
ROW_INLINE void load_row(const rk_rows *rows, int64_t row, float *restrict out, int32_t dim) {
    row_layout layout = row_layout_of(rows);
    row_decode(row_locate_values(rows, row, layout, dim), layout, out, dim);
}

ROW_INLINE void store_row_of_halves(const float *restrict values, const uint32_t words[2], int32_t column,
                                    bool bf16, uint16_t *restrict to, int32_t dim) {
#ifdef __AVX2__
    if (row_is_rounded_by_vectors(dim) && column % (2 * COLUMNS_APART) == 0 &&
        are_all_roundable(values, dim)) {
        store_rounded_vectors(values, words, column, bf16, to, dim);
        return;
    }
#endif
    for (int32_t k = 0; k < dim; k++) {
        uint32_t random = column_random_bits(words, column + k);
        to[k] = bf16 ? rk_bf16_from_f32_stochastic(values[k], random)
                     : rk_f16_from_f32_stochastic(values[k], random);
    }
}

/* words: those of the row, the first two of its block. */
ROW_INLINE void store_row(const rk_rows *rows, int64_t row, const float *restrict values,
                          const uint32_t words[2], int32_t dim) {
    uint16_t *to = (uint16_t *)rows->data + row * dim;
    if (rows->dtype == RK_F32)
        memcpy((float *)rows->data + row * dim, values, (size_t)dim * sizeof *values);
    else if (rows->dtype == RK_BF16)
        store_row_of_halves(values, words, rows->first_column, true, to, dim);
    else
        store_row_of_halves(values, words, rows->first_column, false, to, dim);
}

#endif
