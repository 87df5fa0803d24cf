/* Columns of the Arrow C data interface as raw columns: what transforms take of memory, and sources of
 * streams. */
#ifndef RK_DATA_SOURCE_ARROW_COLUMNS_H
#define RK_DATA_SOURCE_ARROW_COLUMNS_H

#include <reckon/arrow.h>

#include "data/data_config.h"
#include "format/columns.h"

/* That it is a struct whose children have names. */
rk_status rk_arrow_check_schema(const struct ArrowSchema *schema);
/* That both are a struct of as many children, whose rows are all there. */
rk_status rk_arrow_check_array(const struct ArrowSchema *schema, const struct ArrowArray *array);
/* The type of the column that a child becomes. Errors name it: its type is not taken. */
rk_status rk_arrow_column_type(const struct ArrowSchema *child, rk_column_type *out);

typedef struct rk_arrow_manner {
    const rk_data_section *section; /* which texts mean no value, and which columns are keys */
    int64_t first_row;              /* number of the array's first row, for messages */
    bool any_bits;                  /* rk_source_options has it */
} rk_arrow_manner;
/* All rows of a child of a struct that was checked, in place of those that the column has. Texts, and numbers
 * of the column's own type without nulls, stay where they are in the array's memory. */
rk_status rk_arrow_read_column(const struct ArrowSchema *schema, const struct ArrowArray *array,
                               int64_t child, const rk_arrow_manner *manner, rk_column *out);

#endif
