/* Raw columns written as a file of any format; the file appears whole or not at all. */
#ifndef RK_DATA_FILE_OUTPUT_H
#define RK_DATA_FILE_OUTPUT_H

#include "data/data_config.h"
#include "format/columns.h"

typedef struct rk_file_output rk_file_output;

/* types: of text columns that hold numbers (NULL: columns are written as they come). */
rk_status rk_file_output_open(const char *path, rk_data_format format, const rk_column_type *types, int level,
                              rk_file_output **out);
rk_status rk_file_output_add_rows(rk_file_output *output, const rk_columns *rows);
rk_status rk_file_output_commit(rk_file_output *output);
void rk_file_output_free(rk_file_output *output);

/* The types that hold a text so that it comes back byte for byte, or, of a number, so that its value does:
 * bits 1 << rk_column_type. */
unsigned rk_find_lossless_types(rk_span text, bool is_number);

#endif
