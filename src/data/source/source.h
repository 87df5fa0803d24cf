/* Files as raw columns, a chunk of rows at a time: what transforms and convert read from. Reading has three
 * steps, so that several threads can share the work and give what one would: pieces of a file are taken in
 * order, parsed by any thread, and placed in order again. */
#ifndef RK_DATA_SOURCE_SOURCE_H
#define RK_DATA_SOURCE_SOURCE_H

#include "base/text/text_list.h"
#include "data/data_config.h"
#include "data/source/arrow_streams.h"
#include "format/columns.h"
#include "format/parquet/parquet.h"
#include "format/text/csv.h"
#include "format/text/libsvm.h"
#include "format/rkb/rkb.h"

typedef struct rk_source rk_source;

/* A piece of a file, and its rows once it is parsed. Zeroed before its first use. */
typedef struct rk_chunk {
    rk_columns columns; /* texts of csv and TFRecord stand in the piece itself */
    int64_t *lines;     /* [columns.n_rows] line or record number of each row, from first_line on */
    size_t lines_capacity;
    int64_t first_line, n_lines, n_skipped;
    /* the piece */
    char *data; /* [n_bytes] of the stream, in memory of the chunk's own */
    char *memory;
    size_t n_bytes, memory_bytes;
    uint64_t position;             /* of data[0] in the unpacked stream */
    int64_t block;                 /* of an rkb file; number of the piece of a Parquet file */
    rk_arrow_array *array;         /* of a stream in memory, */
    int64_t array_row, stream_row; /* and the piece's first row in it and in the stream */
    int64_t known_rows;            /* rows of the piece, where that is known before it is parsed; else -1 */
    /* what went wrong, said when it is placed */
    rk_status status;
    enum { RK_AT_NOWHERE, RK_AT_LINE, RK_AT_RECORD } error_at;
    uint64_t error_byte; /* from data[0] */
    char error[4096];
    /* memory of the parsers */
    rk_csv_record record;
    rk_libsvm_row libsvm;
    rk_columns file_columns; /* of rkb, in the file's own order */
    rk_rkb_memory rkb;
    rk_parquet_memory parquet;
    uint32_t *places; /* [places_capacity] */
    rk_span *spans;   /* [spans_capacity] */
    size_t places_capacity, spans_capacity, feature;
} rk_chunk;
void rk_chunk_release(rk_chunk *chunk);
uint64_t rk_chunk_bytes(const rk_chunk *chunk); /* memory of the piece and its rows */

typedef struct rk_source_options {
    const rk_data_section *section; /* how the files are written; it and the paths must outlive the source */
    const char *const
        *paths; /* [n_paths], read one after the other; patterns are expanded by rk_expand_paths */
    size_t n_paths;
    const char *const *wanted; /* [n_wanted] columns; NULL: all */
    size_t n_wanted;
    size_t n_optional; /* the first so many wanted ones may be missing: such a column stays without values */
    bool any_bits;     /* of columns that features with `key` alone read (rk_source_take_any_bits) */
} rk_source_options;

rk_status rk_source_open(const rk_source_options *options, rk_source **out);
void rk_source_free(rk_source *source);
static inline void rk_source_auto_free(rk_source **source) { /* for RK_AUTO */
    rk_source_free(*source);
}
/* Whole numbers of the column, by its number among the wanted ones, may be left as rk_column.packed. Before
 * the first file is opened. */
rk_status rk_source_allow_packed_column(rk_source *source, int32_t column);
/* Of columns that features with `key` alone read, whole numbers without a sign beyond those with one are
 * their 64 bits, no error (rk_column.is_unsigned). Before the first file is opened. */
void rk_source_take_any_bits(rk_source *source);
/* Open the next file, when no piece of the one before is used any more; *found = false: there is none. */
rk_status rk_source_next_file(rk_source *source, bool *found);
/* The next piece of the open file; *found = false: it has no more. */
rk_status rk_source_next_piece(rk_source *source, rk_chunk *chunk, bool *found);
/* Fill in the chunk's rows. rk_source_finish_chunk returns what failed. */
void rk_source_parse_chunk(const rk_source *source, rk_chunk *chunk);
/* In its place, if known_rows is not -1 and the rows are not needed. The chunk has no rows, and
 * rk_source_finish_chunk counts them. */
void rk_source_skip_chunk(const rk_source *source, rk_chunk *chunk);
/* In order of the pieces: numbers the lines. A bad row is an error naming file and line, or with on_bad_row:
 * skip it is counted. */
rk_status rk_source_finish_chunk(rk_source *source, rk_chunk *chunk);
/* All three, into a chunk of the source's own: the next rows (valid until the next read); n_rows = 0 at the
 * end. */
rk_status rk_source_read_chunk(rk_source *source, const rk_chunk **out);
/* To the end: that every file opens and has the columns, and that there is a row. */
rk_status rk_source_check(rk_source *source);
int64_t rk_source_n_skipped(const rk_source *source);
/* Where row `row` of a chunk stands: "'a.csv': line 17", into out. */
void rk_source_format_location(const rk_source *source, const rk_chunk *chunk, int64_t row, char *out,
                               size_t out_bytes);
/* Share of the files' bytes read so far, or < 0. */
double rk_source_progress(const rk_source *source);

/* The format of a file: the section's, or by its name. */
rk_status rk_source_format(const rk_data_section *section, const char *path, rk_data_format *out);
/* Paths relative to `directory`. Patterns are expanded and sorted; a directory stands for the files in it and
 * below, sorted, but those whose names begin with a dot or an underscore. RK_NOT_FOUND names what matches
 * nothing; those before it are then in the list. */
rk_status rk_expand_paths(const char *directory, char *const *paths, size_t n_paths, rk_text_list *out);

/* The section for a file of the caller's own: in the manner of the split that it is a file of, else in the
 * data's. */
rk_data_section rk_data_section_of_file(const rk_data_section *section, const char *directory,
                                        const char *path);

#endif
