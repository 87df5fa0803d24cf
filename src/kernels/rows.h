/* Rows of a table in memory. */
#ifndef RK_KERNELS_ROWS_H
#define RK_KERNELS_ROWS_H

#include <stdint.h>

#include <reckon/table.h>

enum { RK_MAX_DIM = 4096 }; /* values a row */

typedef struct rk_rows {
    void *data;      /* [n_rows, dim] of dtype, rows dim * rk_dtype_bytes(dtype) apart */
    rk_dtype dtype;
    int32_t dim;
} rk_rows;

#endif
