/* Files as raw columns, a chunk of rows at a time: what transforms and convert read from. */
#ifndef RK_DATA_SOURCE_H
#define RK_DATA_SOURCE_H

#include "data/data_config.h"
#include "format/columns.h"

typedef struct rk_source rk_source;

typedef struct rk_source_options {
    const rk_data_section *section; /* how the files are written; it and the paths must outlive the source */
    const char *const *paths;       /* [n_paths], read one after the other; patterns are expanded by rk_expand_paths */
    size_t n_paths;
    const char *const *wanted;      /* [n_wanted] columns; NULL: all */
    size_t n_wanted;
    size_t n_optional;              /* the first so many wanted ones may be missing: such a column stays without values */
} rk_source_options;

rk_status rk_source_open(const rk_source_options *options, rk_source **out);
void rk_source_free(rk_source *source);
/* The next rows, up to max_rows, into the source's own columns (valid until the next read); n_rows = 0 at the end. A bad row is an error naming
 * file and line, or with on_bad_row: skip it is counted. */
rk_status rk_source_read(rk_source *source, int64_t max_rows, const rk_columns **out);
int64_t rk_source_n_skipped(const rk_source *source);
/* Where row `row` of the last chunk stands: "'a.csv': line 17", into out. */
void rk_source_where(const rk_source *source, int64_t row, char *out, size_t out_bytes);
/* Share of the files' bytes read so far, or < 0. */
double rk_source_progress(const rk_source *source);

/* The format of a file: the section's, or by its name. */
rk_status rk_source_format(const rk_data_section *section, const char *path, rk_data_format *out);
/* Paths relative to `directory`, patterns expanded and sorted. RK_NOT_FOUND names what matches nothing. Free with rk_free_strings. */
rk_status rk_expand_paths(const char *directory, char *const *paths, size_t n_paths, char ***out, size_t *n_out);

#endif
