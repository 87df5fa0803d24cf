/* Rows of tables in the formats that they are exported in (docs/export.md). */
#ifndef RK_EMBEDDING_CONFIG_ROW_FORMATS_H
#define RK_EMBEDDING_CONFIG_ROW_FORMATS_H

#include <reckon/table.h>

#include "base/error.h"
#include "kernels/rows.h"

/* The dtype of a row's elements in a file, and how many there are for `dim` values. rows is not
 * RK_EXPORT_ROWS_TRAINED. */
rk_dtype rk_row_format_dtype(rk_export_rows rows);
int64_t rk_row_format_columns(rk_export_rows rows, int64_t dim);
/* What the header's metadata, of the key "reckon.rows", call it; NULL: the dtype says all. */
#define RK_ROW_FORMATS_KEY "reckon.rows"
const char *rk_row_format_name(rk_export_rows rows);

/* A row of codes as three tensors of their own: a column of bytes of it each, and what those are. */
typedef enum rk_row_component { RK_ROW_WHOLE, RK_ROW_CODES, RK_ROW_SCALES, RK_ROW_MINIMA } rk_row_component;
typedef struct rk_row_columns {
    int64_t first, n; /* bytes */
    rk_dtype type;
} rk_row_columns;
rk_row_columns rk_row_format_component(rk_export_rows rows, int64_t dim, rk_row_component piece);

/* Rows as they are written, one behind another, for kernels to read. */
rk_rows rk_row_format_view_rows(rk_export_rows rows, int64_t dim, const void *data);

/* n rows of dim values, f32, into out. *failed: the first row that int8 or int4 cannot hold, since a value or
 * the difference of two is not finite; else -1. */
void rk_row_format_encode(rk_export_rows rows, const float *from, int64_t n, int64_t dim, void *out,
                          int64_t *failed);
/* The error that tells of it. */
rk_status rk_row_format_encode_error(rk_export_rows rows, const char *table, int64_t row);
/* And back, into out [n, dim]. */
void rk_row_format_decode(rk_export_rows rows, const void *from, int64_t n, int64_t dim, float *out);

/* n values of a table's dtype (f32, bf16, f16) as f32. */
void rk_row_values_to_f32(rk_dtype type, const void *from, int64_t n, float *out);

/* What rows of dim values are written as where `rows` is asked for, if they are trained in `type`: codes with
 * a scale and a least value would make rows of few values larger, and those stay as they are. */
rk_export_rows rk_row_format_if_smaller(rk_export_rows rows, int64_t dim, rk_dtype type);
/* The format of this name (rk_row_format_name); RK_EXPORT_ROWS_TRAINED: none. */
rk_export_rows rk_row_format_from_name(const char *name);

#endif
