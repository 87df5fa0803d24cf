/* Inside a source: one file at a time, by a reader of its format. */
#ifndef RK_DATA_SOURCE_SOURCE_INTERNAL_H
#define RK_DATA_SOURCE_SOURCE_INTERNAL_H

#include "data/source/source.h"
#include "format/byte_stream.h"

/* Bytes of a piece, where its records allow it: what one thread parses with its rows still in its cache. */
enum { RK_PIECE_BYTES = 1 << 17 };
/* A larger record is refused, so that no file, packed however densely, asks for any amount of memory. */
enum { RK_MAX_RECORD_BYTES = 1 << 26 };
/* Rows of a piece times columns: rows of few bytes may have many columns without values, which take
 * memory. */
enum { RK_MAX_PIECE_CELLS = 1 << 22 };

typedef struct rk_file_reader {
    /* The bytes of the whole records that data[0..n_bytes) begins with; 0: not one ends in it. NULL: the file
     * is not read as a stream. */
    size_t (*cut)(rk_source *source, const char *data, size_t n_bytes);
    /* The lines or records of a piece; -1: the last one is not whole. NULL where `cut` is. */
    int64_t (*lines)(const char *data, size_t n_bytes);
    bool many_rows_a_line;
    /* The next piece, where `cut` is NULL; *found = false at the end. */
    rk_status (*next)(rk_source *source, rk_chunk *chunk, bool *found);
    /* Append the rows of the chunk's piece; any thread. A row that fails ends in rk_chunk_end_row, other
     * failures are returned. */
    rk_status (*parse)(const rk_source *source, rk_chunk *chunk);
    void (*close)(rk_source *source);
    bool counts_rows; /* places are rows, counted from 0, in place of lines */
} rk_file_reader;

/* A column whose value is a part of the file's path, as Hive and Spark write them
 * (date=2024-01-01/x.parquet): the same in each row. */
typedef struct rk_path_column {
    int32_t place; /* in source->columns */
    char *value;   /* empty: none */
} rk_path_column;

struct rk_source {
    rk_source_options options;
    char **wanted;      /* its own copy of options.wanted */
    bool *packed;       /* [options.n_wanted] or NULL: columns that may stay packed */
    rk_columns columns; /* names and types, made by the first file's reader; no rows */
    bool has_columns;
    size_t file;                  /* number of the open file */
    rk_path_column *path_columns; /* [n_path_columns] of the open file */
    size_t n_path_columns;
    const rk_file_reader *reader; /* NULL: none is open */
    void *state;                  /* the reader's */
    rk_byte_stream *stream;       /* of formats that read one */
    rk_byte_lookahead lookahead;  /* what follows the pieces taken */
    size_t piece_bytes;           /* RK_PIECE_BYTES, or fewer */
    int64_t next_line; /* number of the first line or record of the next piece to be placed, from 1 */
    int64_t n_skipped;
    double finished_bytes, total_bytes;
    rk_chunk own; /* of rk_source_read_chunk */
};

static inline const char *rk_source_path(const rk_source *s) {
    return s->options.paths[s->file];
}

/* Whether the first line of a file may be what it is taken for. */
rk_status rk_csv_check_first_line(const char *path, const rk_data_section *section,
                                  const rk_csv_record *record, bool is_header);

/* Open the current file: each makes its state, and the columns if there are none yet. */
rk_status rk_csv_reader_open(rk_source *source, char default_separator);
rk_status rk_libsvm_reader_open(rk_source *source);
rk_status rk_tfrecord_reader_open(rk_source *source);
rk_status rk_rkb_reader_open(rk_source *source);
rk_status rk_adjacency_reader_open(rk_source *source);
rk_status rk_arrow_reader_open(rk_source *source);
rk_status rk_parquet_reader_open(rk_source *source);

/* A source of one of its files: with the columns of another such one, if that is not NULL. */
rk_status rk_source_open_single_file(const rk_source *source, size_t file, const rk_source *like,
                                     rk_source **out);
/* The open file's pieces are parsed from now on, but none is taken. */
void rk_source_close_stream(rk_source *source);
int64_t rk_count_lines(const char *data, size_t n_bytes);

/* The record at the lookahead's beginning does not end in it: twice the bytes. */
rk_status rk_source_extend_lookahead(rk_source *source);

/* A column of the file, and its place in source->columns; -1: it is not wanted. */
typedef struct rk_file_column {
    const char *name;
    rk_column_type type;
    int32_t place;
} rk_file_column;

/* Finds the places of the file's columns [n], cut down to the wanted ones. Errors name the missing column and
 * the nearest. */
rk_status rk_source_map_columns(rk_source *source, rk_file_column *columns, size_t n);
/* The value that a file's path gives a column: of the last directory "NAME=VALUE", with %XX decoded. Hive's
 * name for none is an empty value. */
bool rk_path_has_partition_value(const char *path, const char *name);
rk_status rk_path_partition_value(const char *path, const char *name, char **out);
/* Whether the column is one of those that were asked for by name. */
bool rk_source_wants_column(const rk_source *source, const char *name);

/* A row that began at line chunk->n_lines of the piece is whole: keep it, or, if `status` is RK_BAD_DATA and
 * rows may be skipped, forget it. */
rk_status rk_chunk_end_row(const rk_source *source, rk_chunk *chunk, rk_status status);
/* `take` of each line of the chunk's piece, without its end, while it is the chunk's line n_lines. */
rk_status rk_chunk_for_each_line(const rk_source *source, rk_chunk *chunk,
                                 rk_status (*take)(const rk_source *source, rk_chunk *chunk, const char *line,
                                                   size_t n_bytes));
/* Room for the lines of so many rows. */
rk_status rk_chunk_reserve(rk_chunk *chunk, int64_t n_rows);

#endif
