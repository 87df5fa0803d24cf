/* Rows of tables in the formats that they are exported in (docs/export.md). */
#ifndef RK_EXPORT_ROW_FORMATS_H
#define RK_EXPORT_ROW_FORMATS_H

#include <reckon/export.h>

#include "base/state.h"

/* The dtype of a row's elements in a file, and how many there are for `dim` values. rows is not
 * RK_EXPORT_ROWS_TRAINED. */
rk_dtype rk_row_format_type(rk_export_rows rows);
int64_t rk_row_format_columns(rk_export_rows rows, int64_t dim);
/* What the header's metadata call it; NULL: the dtype says all. */
const char *rk_row_format_name(rk_export_rows rows);

/* n rows of dim values, f32, into out. *failed: the first row that int8 or int4 cannot hold, since a value or
 * the difference of two is not finite; else -1. */
void rk_row_format_write(rk_export_rows rows, const float *from, int64_t n, int64_t dim, void *out,
                         int64_t *failed);

#endif
