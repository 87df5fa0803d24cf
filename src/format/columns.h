/* Rows of any input file as columns, before transforms: what every reader fills in and every writer takes. */
#ifndef RK_FORMAT_COLUMNS_H
#define RK_FORMAT_COLUMNS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text/text.h"
#include "format/unpack_bits.h"

/* No file has f64: columns in memory do. */
typedef enum rk_column_type { RK_COLUMN_TEXT, RK_COLUMN_I64, RK_COLUMN_F32, RK_COLUMN_F64 } rk_column_type;
const char *rk_column_type_name(rk_column_type type); /* "text", "i64", "f32", "f64" */

/* Where a text stands in its column's bytes. */
typedef struct rk_text_place {
    uint32_t begin, n_bytes;
} rk_text_place;

/* Values of one column. A row has any number of values (none = missing); offsets is kept for every column. */
typedef struct rk_column {
    char *name;
    rk_column_type type;
    int64_t *offsets; /* [n_rows+1] into the values */
    int64_t per_row;  /* every row has so many values, as far as is known; -1: look at the offsets */
    int64_t alike_rows, alike_each; /* offsets[0 .. alike_rows] are the multiples of alike_each, whatever rows
                                       there are: they need not be written again */
    int64_t n_values;
    int64_t *i64;          /* [n_values] or NULL, by type */
    rk_packed_ints packed; /* data not NULL: the values are there and not in i64 yet, which only who asked for
                              it meets */
    float *f32;            /* [n_values] or NULL */
    double *f64;           /* [n_values] or NULL */
    rk_text_place *places; /* [n_values] in text, or NULL */
    const char *text;      /* text_memory, or bytes that a reader keeps while the rows are looked at */
    char *text_memory;
    size_t n_text_bytes; /* of text_memory */
    float *weights;      /* [n_values], or NULL: none are given */
    bool is_unsigned;    /* i64 are the bits of numbers without a sign (rk_source_take_any_bits) */
    bool is_time;        /* dates or times as their file has them: days, milliseconds (Parquet) */
    bool is_borrowed;    /* i64, f32 or f64 is another's array, and `own` the column's */
    void *own;
    int64_t values_capacity, rows_capacity, text_capacity,
        weights_capacity; /* managed by the functions below */
} rk_column;

typedef struct rk_columns {
    int64_t n_rows;
    int64_t rows_room; /* every column's offsets have room for rows up to it, as far as is known */
    int32_t n_columns;
    rk_column *columns; /* [n_columns] */
} rk_columns;

/* types NULL: all are of text. */
rk_status rk_columns_init(rk_columns *columns, int32_t n_columns, const char *const *names,
                          const rk_column_type *types);
rk_status rk_columns_init_like(rk_columns *columns, const rk_columns *like); /* the same names and types */
void rk_columns_release(rk_columns *columns);
int64_t rk_columns_bytes(const rk_columns *columns); /* that rows, values and texts take */
void rk_columns_clear(rk_columns *columns);          /* no rows; keeps names, types and memory */
int32_t rk_columns_find(const rk_columns *columns, const char *name); /* -1 if there is none */

/* Append values to the row being built, then end the row: each column not given a value is missing there. */
rk_status rk_column_add_text(rk_column *column, rk_span value);
rk_status rk_column_add_i64(rk_column *column, int64_t value);
rk_status rk_column_add_f32(rk_column *column, float value);
rk_status rk_column_add_weight(rk_column *column,
                               float weight); /* of the value just added; earlier values get 1 */
rk_status rk_columns_end_row(rk_columns *columns);
rk_status rk_columns_append(rk_columns *to, const rk_columns *rows); /* all rows of columns that are alike */
/* Room for that many rows, values and bytes of text in all, for readers that fill many rows at once. What is
 * there stays. */
rk_status rk_column_reserve(rk_column *column, int64_t n_rows, int64_t n_values, int64_t n_text_bytes);
/* Of a column of one row: n rows with the same values. */
rk_status rk_column_repeat_row(rk_column *column, int64_t n);
/* The column without values, of that type from here on. */
void rk_column_set_type(rk_column *column, rk_column_type type);
/* n_rows rows without values. */
rk_status rk_column_set_empty_rows(rk_column *column, int64_t n_rows);
/* Of a column of numbers: each of n_rows rows has `each` of the values, which stay where they are and the
 * caller's until the column is given others, cleared or released. */
rk_status rk_column_borrow_values(rk_column *column, const void *values, int64_t n_rows, int64_t each);
rk_status rk_column_reserve_weights(rk_column *column,
                                    int64_t n_values); /* gives the column weights, of undefined value */
rk_status rk_columns_unpack_ints(rk_columns *columns); /* no column stays packed */
/* The same number of columns, with the same names and types in the same order. */
bool rk_columns_have_same_types(const rk_columns *a, const rk_columns *b);
/* Forget the values added since the last ended row (a bad row that is skipped). */
void rk_columns_drop_unended_row(rk_columns *columns);
/* How many values each of the rows first .. first+n-1 has, if it is the same number; else -1. n >= 1. */
int64_t rk_column_values_per_row(const rk_column *column, int64_t first, int64_t n);

static inline bool rk_column_is_float(const rk_column *column) {
    return column->type == RK_COLUMN_F32 || column->type == RK_COLUMN_F64;
}
/* Of any type but text. */
static inline double rk_column_number(const rk_column *column, int64_t value) {
    return column->type == RK_COLUMN_I64   ? (double)column->i64[value]
           : column->type == RK_COLUMN_F32 ? (double)column->f32[value]
                                           : column->f64[value];
}
static inline rk_span rk_column_text(const rk_column *column, int64_t value) {
    return (rk_span){column->text + column->places[value].begin, column->places[value].n_bytes};
}

#endif
