/* Rows of requests, collected into columns that rk_session_run takes: texts, as a CSV file would have them,
 * so that numbers are read as exactly as from files; or numbers, where all of a column's values are such and
 * nothing that reads it sees more in a text. Rows of several requests follow one another; those of one that
 * is found wrong are taken back. */
#ifndef RK_SERVER_REQUEST_ROWS_H
#define RK_SERVER_REQUEST_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <reckon/arrow.h>
#include <reckon/experimental/column_reading.h>

#include "base/buffer.h"
#include "base/text/number_text.h"

typedef union rk_request_number {
    int64_t i64; /* of a column of RK_READS_INTEGERS */
    double f64;
} rk_request_number;

/* A column: the values of its rows, one after the other. */
typedef struct rk_request_column {
    const char *name;
    bool required;   /* a request without it is refused */
    bool given;      /* since rk_request_rows_begin */
    bool is_context; /* its one row stands for all */
    rk_column_reading reading;
    bool is_text; /* the values are texts: reading says so, or one of them is no such number */
    rk_buffer text;
    int32_t *ends;              /* [1 + n_values] of texts: 0, then where each value ends in the text */
    rk_request_number *numbers; /* [n_values] of numbers */
    bool *nulls;                /* [n_values] */
    size_t n_values, ends_capacity, numbers_capacity, nulls_capacity;
    int32_t *first; /* [n_rows + 1] of each row, its first value */
    bool *lists;    /* [n_rows] given as a list */
    size_t n_rows, first_capacity, lists_capacity, n_lists;
    uint8_t *bits[2]; /* validity of rows, and of a list's values */
    size_t bits_capacity[2];
} rk_request_column;

typedef struct rk_request_rows {
    rk_request_column *columns; /* [n_columns] */
    size_t n_columns;
    size_t expected;                    /* where the next column is looked for first */
    bool takes_context;                 /* set by who reads a request alone: a context is kept as one row */
    struct rk_request_structs *structs; /* of rk_request_rows_to_arrow */
} rk_request_rows;

/* Columns are the children of `schema` (rk_session_input_schema), which outlives the rows; the first
 * n_required must be in each request. All are of texts until rk_request_column_set_reading says more. Release
 * after a failure too. */
rk_status rk_request_rows_init(rk_request_rows *rows, const struct ArrowSchema *schema, int64_t n_required);
void rk_request_rows_release(rk_request_rows *rows);
void rk_request_column_set_reading(rk_request_column *column, rk_column_reading reading);

/* NULL: none of the model's. */
rk_request_column *rk_request_rows_find(rk_request_rows *rows, rk_span name);

/* A value by its number as text, valid until one is added, or as the scratch is. */
rk_span rk_request_get_value(const rk_request_column *column, int32_t value, char scratch[RK_NUMBER_BYTES]);
/* The first value of a row; none: "". Valid as long. */
rk_span rk_request_get_first_value(const rk_request_column *column, size_t row,
                                   char scratch[RK_NUMBER_BYTES]);

/* A row of one value, or of a list of any number of them, which are then added. */
rk_status rk_request_add_row(rk_request_column *column, bool list);
rk_status rk_request_add_text(rk_request_column *column, rk_span text);
rk_status rk_request_add_null(rk_request_column *column);
/* Numbers, as their texts: of JSON that which stands there, else the shortest. */
rk_status rk_request_add_json_number(rk_request_column *column, rk_span text);
rk_status rk_request_add_i64(rk_request_column *column, int64_t number);
rk_status rk_request_add_u64(rk_request_column *column, uint64_t number);
rk_status rk_request_add_f32(rk_request_column *column, float number);
rk_status rk_request_add_f64(rk_request_column *column, double number);
/* The last n_rows - column->n_rows rows: without a value; or with those of row `row`. */
rk_status rk_request_fill_missing(rk_request_column *column, size_t n_rows);
rk_status rk_request_repeat_row(rk_request_column *column, size_t row, size_t n_rows);

/* A request begins. */
void rk_request_rows_begin(rk_request_rows *rows);
/* It has ended, and has rows up to n_rows in all. Columns of fewer rows get missing values. RK_BAD_DATA: a
 * required column was not given. */
rk_status rk_request_rows_end(rk_request_rows *rows, size_t n_rows);
/* Back to the first n_rows. */
void rk_request_rows_truncate(rk_request_rows *rows, size_t n_rows);

/* A struct array, whose columns that were never given are left out. Valid until the rows change; nothing is
 * to be released. */
typedef struct rk_request_table {
    const struct ArrowSchema *schema;
    const struct ArrowArray *array;
} rk_request_table;
/* The first n_rows rows; the context's columns are in *context, of one row, or its schema is NULL. */
rk_status rk_request_rows_to_arrow(rk_request_rows *rows, size_t n_rows, rk_request_table *out,
                                   rk_request_table *context);

#endif
