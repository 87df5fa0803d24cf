/* Rows of a table in memory. */
#ifndef RK_KERNELS_ROWS_H
#define RK_KERNELS_ROWS_H

#include <stdint.h>

#include <reckon/table.h>

enum { RK_MAX_DIM = 4096 };               /* values a row */
enum { RK_ROW_DTYPE_COUNT = RK_F16 + 1 }; /* the first dtypes are those of rows */

typedef struct rk_rows {
    void *data; /* [n_rows, dim] of dtype, rows dim * rk_dtype_bytes(dtype) apart */
    rk_dtype dtype;
    int32_t dim;
    /* A part of a larger table, where it is one: row r is id r * n_parts + part (n_parts 0: all), and its
     * values are columns from first_column on. */
    int32_t n_parts, part, first_column;
} rk_rows;

static inline int64_t rk_rows_id(const rk_rows *rows, int64_t row) {
    return rows->n_parts ? row * rows->n_parts + rows->part : row;
}

#endif
