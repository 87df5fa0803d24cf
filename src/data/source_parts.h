/* Inside a source: one file at a time, by a reader of its format. */
#ifndef RK_DATA_SOURCE_PARTS_H
#define RK_DATA_SOURCE_PARTS_H

#include "data/source.h"
#include "format/stream.h"

typedef struct rk_file_reader {
    /* Append rows to source->columns until it has max_rows or the file ends (*at_end). */
    rk_status (*read)(rk_source *source, int64_t max_rows, bool *at_end);
    void (*close)(rk_source *source);
} rk_file_reader;

struct rk_source {
    rk_source_options options;
    char **wanted;             /* its own copy of options.wanted */
    rk_columns columns;        /* made by the first file's reader */
    bool has_columns;
    size_t file;               /* number of the open file */
    const rk_file_reader *reader; /* NULL: none is open */
    void *state;               /* the reader's */
    rk_stream *stream;         /* of formats that read one */
    rk_lookahead lookahead;
    int64_t *lines;            /* [columns.n_rows] line or record number of each row */
    int64_t lines_capacity;
    int64_t line;              /* of the record being read, from 1 */
    int64_t n_skipped;
    double finished_bytes, total_bytes;
};

static inline const char *rk_source_path(const rk_source *s) { return s->options.paths[s->file]; }

/* Open the current file: each makes its state, and the columns if there are none yet. */
rk_status rk_csv_reader_open(rk_source *source, char default_separator);
rk_status rk_libsvm_reader_open(rk_source *source);
rk_status rk_tfrecord_reader_open(rk_source *source);
rk_status rk_rkb_reader_open(rk_source *source);

/* The columns of the file by name, cut down to the wanted ones: map[i] = place in source->columns of the file's column i, or -1. Errors name the
 * missing column and the nearest. */
rk_status rk_source_map_columns(rk_source *source, const char *const *names, const rk_column_type *types, size_t n, int32_t *map);
/* A row is whole: keep it, or, if `status` is RK_BAD_DATA and rows may be skipped, forget it. Adds file and line to an error. */
rk_status rk_source_end_row(rk_source *source, rk_status status);

#endif
