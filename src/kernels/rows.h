/* Rows of a table in memory. */
#ifndef RK_KERNELS_ROWS_H
#define RK_KERNELS_ROWS_H

#include <stdint.h>

#include <reckon/table.h>

enum { RK_MAX_DIM = 4096 };               /* values a row */
enum { RK_ROW_DTYPE_COUNT = RK_F16 + 1 }; /* the first dtypes are those of rows */

/* Codes that stand for code * scale + least, as rk_rows_quantize makes them: row r's begin at
 * data + r * stride, its scale and its least value stand at scales and minima + r * tail_stride. */
typedef struct rk_row_codes {
    int32_t bits;                   /* 8, with tails in f32; 4, two codes a byte, with tails in f16 */
    const uint8_t *scales, *minima; /* behind each row's codes, or columns of their own; not aligned */
    int64_t stride, tail_stride;    /* bytes */
} rk_row_codes;

typedef struct rk_rows {
    void *data;     /* [n_rows, dim] of dtype, rows dim * rk_dtype_bytes(dtype) apart; or */
    rk_dtype dtype; /* RK_U8: rows of codes, which are only read */
    int32_t dim;
    rk_row_codes codes;
    /* A part of a larger table, where it is one: row r is id r * n_parts + part (n_parts 0: all), and its
     * values are columns from first_column on. */
    int32_t n_parts, part, first_column;
    const int64_t *keys; /* the rows' ids, where these are keys, key_stride apart; NULL: they are the rows'
                            numbers */
    int64_t key_stride;
} rk_rows;

static inline int64_t rk_id_of_row(const rk_rows *rows, int64_t row) {
    if (rows->keys) return rows->keys[row * rows->key_stride];
    return rows->n_parts ? row * rows->n_parts + rows->part : row;
}

#endif
