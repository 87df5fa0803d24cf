/* Columns of the Arrow C data interface as raw columns, which transforms take like those of any file. */
#ifndef RK_DATA_TRANSFORM_ARROW_COLUMNS_H
#define RK_DATA_TRANSFORM_ARROW_COLUMNS_H

#include <reckon/arrow.h>

#include "format/columns.h"

/* That both are a struct of as many children, whose rows are all there. */
rk_status rk_arrow_check(const struct ArrowSchema *schema, const struct ArrowArray *array);
/* All rows of a child of a struct that was checked, in place of those that the column has. Texts stay where
 * they are in the array's memory. missing [n_missing]: texts that mean no value, as an empty one always does.
 */
rk_status rk_arrow_take_column(const struct ArrowSchema *schema, const struct ArrowArray *array,
                               int64_t child, char *const *missing, int64_t n_missing, rk_column *out);

#endif
