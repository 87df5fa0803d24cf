/* Apache Parquet files, read: rows of one column of one row group at a time, as a rk_column. Values are those
 * of docs/formats/parquet.md. An open file may be read by several threads at once. */
#ifndef RK_FORMAT_PARQUET_PARQUET_H
#define RK_FORMAT_PARQUET_PARQUET_H

#include "format/columns.h"

typedef struct rk_parquet rk_parquet;

rk_status rk_parquet_open(const char *path, rk_parquet **out);
/* Over bytes in memory, which must outlive it: what the fuzz target calls. `path` is for messages. */
rk_status rk_parquet_open_memory(const char *path, const void *data, size_t n_bytes, rk_parquet **out);
void rk_parquet_free(rk_parquet *file);

/* A leaf of the schema, as a column. */
typedef struct rk_parquet_column {
    char *name; /* of nested ones the path, without the names that lists and maps put between */
    rk_column_type type;
    const char *refused; /* why it cannot be read, or NULL */
} rk_parquet_column;
int32_t rk_parquet_n_columns(const rk_parquet *file);
const rk_parquet_column *rk_parquet_column_at(const rk_parquet *file, int32_t column);

int64_t rk_parquet_n_rows(const rk_parquet *file);
int64_t rk_parquet_n_groups(const rk_parquet *file);
int64_t rk_parquet_group_rows(const rk_parquet *file, int64_t group);
/* What the file says of a column of a row group: values, nulls and empty lists among them, and bytes before
 * compression. */
typedef struct rk_parquet_size {
    uint64_t n_values, n_bytes;
} rk_parquet_size;
rk_parquet_size rk_parquet_column_chunk_size(const rk_parquet *file, int64_t group, int32_t column);

/* Memory that stays between reads, one for each thread; zeroed before, released after. */
typedef struct rk_parquet_memory {
    void *zstd;
    uint8_t *page, *bytes; /* a page, decompressed; values that stand nowhere as they are */
    size_t page_capacity, bytes_capacity;
    struct rk_parquet_batch *batch;
    rk_columns dictionary; /* of one column, by its type */
} rk_parquet_memory;
void rk_parquet_memory_release(rk_parquet_memory *memory);

typedef struct rk_parquet_rows {
    int64_t group, first, n; /* rows first .. first+n-1 of the row group */
    char *const *missing;    /* [n_missing] texts that mean no value, as an empty one always does */
    int64_t n_missing;
    bool any_bits; /* whole numbers without a sign beyond those with one are their 64 bits, no error */
} rk_parquet_rows;
/* In place of the rows that *out has, which is of the column's type. No more than RK_PARQUET_MAX_VALUES
 * values and RK_PARQUET_MAX_TEXT_BYTES of text. Errors name file, row group and column. */
enum {
    RK_PARQUET_MAX_VALUES = 1 << 26,
    RK_PARQUET_MAX_TEXT_BYTES = 1 << 30,
    RK_PARQUET_MAX_PAGE_BYTES = 1 << 28
};
rk_status rk_parquet_read(const rk_parquet *file, int32_t column, const rk_parquet_rows *rows,
                          rk_parquet_memory *memory, rk_column *out);

#endif
