/* A stream of arrays as a file: its arrays are cut into pieces, whose columns any thread takes. */
#include <string.h>

#include "base/memory.h"
#include "data/source/arrow_columns.h"
#include "data/source/source_internal.h"

/* Rows of a piece: their columns stay in a core's cache, and an array, which may be all of the data, has work
 * for every thread. */
enum { PIECE_ROWS = 8192 };

typedef struct arrow_state {
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    int64_t *children; /* of the schema, for each of the source's columns; -1: the stream has not got it */
    rk_arrow_array *array; /* the one whose pieces are taken, or NULL */
    int64_t row;           /* the next piece's first in it */
    int64_t stream_row;    /* and in the stream */
} arrow_state;

static rk_status stream_error(const rk_source *s, int code, const char *what) {
    struct ArrowArrayStream *stream = &((arrow_state *)s->state)->stream;
    const char *why = stream->get_last_error ? stream->get_last_error(stream) : NULL;
    if (!why) return rk_error_errno(RK_IO, code, "'%s': the stream gives no %s", rk_source_path(s), what);
    return rk_error(RK_IO, "'%s': the stream gives no %s: %s", rk_source_path(s), what, why);
}

static bool has_rows_left(const arrow_state *a) {
    return a->array && a->row < a->array->array.length;
}

/* The stream's next array; *found = false at its end. */
static rk_status next_array(rk_source *s, bool *found) {
    arrow_state *a = s->state;
    rk_arrow_array_unref(a->array);
    a->array = NULL;
    a->row = 0;
    RK_TRY(rk_alloc(1, sizeof *a->array, &a->array));
    a->array->n_users = 1;
    int code = a->stream.get_next(&a->stream, &a->array->array);
    if (code != 0) {
        a->array->array.release = NULL; /* a failed call leaves nothing to release */
        return stream_error(s, code, "rows");
    }
    *found = a->array->array.release != NULL;
    if (!*found) return RK_OK;
    rk_status status = rk_arrow_check_array(&a->schema, &a->array->array);
    return status == RK_OK ? RK_OK
                           : rk_error_context(status, "'%s': the array that begins with row %lld",
                                              rk_source_path(s), (long long)a->stream_row);
}

static rk_status next_arrow_chunk(rk_source *s, rk_chunk *chunk, bool *found) {
    arrow_state *a = s->state;
    rk_arrow_array_unref(chunk->array);
    chunk->array = NULL;
    for (*found = true; *found && !has_rows_left(a);) RK_TRY(next_array(s, found));
    if (!*found) return RK_OK;
    int64_t left = a->array->array.length - a->row,
            most = RK_MAX_PIECE_CELLS / (s->columns.n_columns + 1) + 1;
    if (most > PIECE_ROWS) most = PIECE_ROWS;
    chunk->known_rows = left < most ? left : most;
    chunk->array = a->array;
    chunk->array_row = a->row;
    chunk->stream_row = a->stream_row;
    a->array->n_users++;
    a->row += chunk->known_rows;
    a->stream_row += chunk->known_rows;
    return RK_OK;
}

static rk_status parse_arrow(const rk_source *s, rk_chunk *chunk) {
    const arrow_state *a = s->state;
    struct ArrowArray rows = chunk->array->array; /* some of its rows; never released */
    const int64_t n = chunk->known_rows;
    rows.offset += chunk->array_row;
    rows.length = n;
    RK_TRY(rk_chunk_reserve(chunk, n));
    const rk_arrow_manner manner = {s->options.section, chunk->stream_row, s->options.any_bits};
    for (int32_t c = 0; c < chunk->columns.n_columns; c++) {
        rk_column *column = &chunk->columns.columns[c];
        rk_status status = a->children[c] < 0
                               ? rk_column_set_empty_rows(column, n)
                               : rk_arrow_read_column(&a->schema, &rows, a->children[c], &manner, column);
        if (status != RK_OK) return rk_error_context(status, "'%s'", rk_source_path(s));
    }
    for (int64_t row = 0; row < n; row++) chunk->lines[row] = row;
    chunk->columns.n_rows = chunk->n_lines = n;
    return RK_OK;
}

static void close_arrow(rk_source *s) {
    arrow_state *a = s->state;
    rk_arrow_array_unref(a->array);
    if (a->schema.release) a->schema.release(&a->schema);
    if (a->stream.release) a->stream.release(&a->stream);
    RK_FREE_ALL(a->children, a);
}

/* A column of a type that is not taken is no matter while nothing asks for it. */
static rk_status map_arrow_columns(rk_source *s) {
    arrow_state *a = s->state;
    RK_AUTOFREE rk_file_column *columns = NULL;
    RK_AUTOFREE int64_t *children = NULL;
    size_t n = 0;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)a->schema.n_children, columns),
                        RK_ARRAY((size_t)a->schema.n_children, children)));
    for (int64_t c = 0; c < a->schema.n_children; c++) {
        const struct ArrowSchema *child = a->schema.children[c];
        rk_column_type type;
        rk_status status = rk_arrow_column_type(child, &type);
        if (status != RK_OK && rk_source_wants_column(s, child->name))
            return rk_error_context(status, "'%s'", rk_source_path(s));
        if (status != RK_OK) continue;
        columns[n] = (rk_file_column){child->name, type, 0};
        children[n++] = c;
    }
    RK_TRY(rk_source_map_columns(s, columns, n));
    RK_TRY(rk_alloc((size_t)s->columns.n_columns, sizeof *a->children, &a->children));
    for (int32_t c = 0; c < s->columns.n_columns; c++) a->children[c] = -1;
    for (size_t i = 0; i < n; i++)
        if (columns[i].place >= 0) a->children[columns[i].place] = children[i];
    return RK_OK;
}

static rk_status open_schema(rk_source *s) {
    arrow_state *a = s->state;
    int code = a->stream.get_schema(&a->stream, &a->schema);
    if (code != 0) {
        a->schema.release = NULL;
        return stream_error(s, code, "schema");
    }
    rk_status status = rk_arrow_check_schema(&a->schema);
    return status == RK_OK ? RK_OK : rk_error_context(status, "'%s'", rk_source_path(s));
}

static const rk_file_reader reader = {
    .next = next_arrow_chunk, .parse = parse_arrow, .close = close_arrow, .counts_rows = true};

rk_status rk_arrow_reader_open(rk_source *s) {
    arrow_state *a;
    RK_TRY(rk_alloc(1, sizeof *a, &a));
    s->state = a;
    s->reader = &reader;
    RK_TRY(rk_arrow_streams_open(s->options.section->streams, rk_source_path(s), &a->stream));
    RK_TRY(open_schema(s));
    return map_arrow_columns(s);
}
