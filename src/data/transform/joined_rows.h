/* Rows with their joins: a source, and small files looked up by keys, seen as one set of columns by name. */
#ifndef RK_DATA_TRANSFORM_JOINED_ROWS_H
#define RK_DATA_TRANSFORM_JOINED_ROWS_H

#include "base/text/number_text.h"
#include "data/transform/vocabulary.h"
#include "data/source/source.h"

/* One joined file in memory. */
typedef struct rk_join {
    char *path;
    rk_columns columns;
    rk_vocabulary keys; /* number = row */
    int32_t key_column; /* of the source's columns */
} rk_join;

/* Where a name's values are. */
typedef struct rk_binding {
    int32_t join;   /* -1: the source itself */
    int32_t column; /* -1: nowhere (an optional column) */
    bool shared;    /* another name's too; told by the first of them */
} rk_binding;

typedef struct rk_joined_rows {
    rk_source *source;
    rk_join *joins; /* [n_joins] */
    size_t n_joins;
    rk_text_list paths;
    rk_binding *bindings; /* [n_names], of the names given at open */
} rk_joined_rows;

/* names [n_names] that will be read; the first n_optional of them may be missing. */
rk_status rk_joined_rows_open(const rk_data_section *section, const char *directory, char *const *paths,
                              size_t n_paths, const char *const *names, size_t n_names, size_t n_optional,
                              rk_joined_rows *out);
/* The joined files alone, for columns that are in memory: bindings, and the names of those that a chunk has
 * to have, in the order of its columns, into wanted [n_names + n_joins]. */
rk_status rk_joined_rows_open_joins(const rk_data_section *section, const char *directory,
                                    const char *const *names, size_t n_names, rk_joined_rows *out,
                                    const char **wanted, size_t *n_wanted);
/* For all columns: only the source and the joined files, no bindings. */
rk_status rk_joined_rows_open_all_columns(const rk_data_section *section, const char *directory,
                                          char *const *paths, size_t n_paths, rk_joined_rows *out);
/* The name's column may stay packed (rk_source_allow_packed_column), unless it is another's too. */
rk_status rk_joined_rows_allow_packed_column(rk_joined_rows *rows, int32_t name);
void rk_joined_rows_release(rk_joined_rows *rows);

/* The values of name `name` (its number) in row `row` of a chunk of the source. */
typedef struct rk_values {
    const rk_column *column; /* NULL: none */
    int64_t begin, end;
} rk_values;
rk_values rk_joined_rows_get_values(const rk_joined_rows *rows, const rk_columns *chunk, int32_t name,
                                    int64_t row);

/* One value as text (numbers are written into scratch) or as a number; false: it is not one. */
rk_span rk_value_as_text(const rk_column *column, int64_t value, char scratch[RK_NUMBER_BYTES]);
bool rk_value_as_number(const rk_column *column, int64_t value, double *out);

#endif
