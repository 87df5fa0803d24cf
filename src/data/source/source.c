#include "data/source/source.h"

#include <stdio.h>
#include <string.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "data/source/source_internal.h"

rk_status rk_source_open(const rk_source_options *options, rk_source **out) {
    RK_AUTO(rk_source_auto_free) rk_source *s = NULL;
    RK_TRY(rk_alloc(1, sizeof *s, &s));
    s->options = *options;
    s->piece_bytes = RK_PIECE_BYTES;
    if (options->wanted) RK_TRY(rk_alloc(options->n_wanted, sizeof *s->wanted, &s->wanted));
    for (size_t i = 0; options->wanted && i < options->n_wanted; i++)
        RK_TRY(rk_strdup(options->wanted[i], &s->wanted[i]));
    s->options.wanted = (const char *const *)s->wanted;
    for (size_t i = 0; i < options->n_paths; i++) {
        uint64_t n_bytes = 0;
        if (strcmp(options->paths[i], "-") != 0 && !rk_path_is_memory_stream(options->paths[i]))
            RK_TRY(rk_file_size(options->paths[i], &n_bytes));
        s->total_bytes += (double)n_bytes;
    }
    *out = s;
    s = NULL;
    return RK_OK;
}

void rk_source_close_stream(rk_source *s) {
    rk_byte_lookahead_release(&s->lookahead);
    rk_byte_stream_free(s->stream);
    s->stream = NULL;
}

static void release_path_columns(rk_source *s) {
    for (size_t i = 0; i < s->n_path_columns; i++) rk_free(s->path_columns[i].value);
    rk_free(s->path_columns);
    s->path_columns = NULL;
    s->n_path_columns = 0;
}

static void close_file(rk_source *s) {
    if (s->reader) s->reader->close(s);
    s->reader = NULL;
    s->state = NULL;
    if (s->stream) s->finished_bytes += (double)rk_byte_stream_file_position(s->stream);
    rk_source_close_stream(s);
    release_path_columns(s);
}

rk_status rk_source_open_single_file(const rk_source *s, size_t file, const rk_source *like,
                                     rk_source **out) {
    rk_source_options options = s->options;
    RK_AUTO(rk_source_auto_free) rk_source *one = NULL;
    options.paths += file;
    options.n_paths = 1;
    RK_TRY(rk_source_open(&options, &one));
    for (size_t i = 0; s->packed && i < options.n_wanted; i++)
        if (s->packed[i]) RK_TRY(rk_source_allow_packed_column(one, (int32_t)i));
    if (like) RK_TRY(rk_columns_init_like(&one->columns, &like->columns));
    one->has_columns = like != NULL;
    *out = one;
    one = NULL;
    return RK_OK;
}

int64_t rk_count_lines(const char *data, size_t n_bytes) {
    int64_t n = 0;
    const char *end = data + n_bytes;
    for (; (data = memchr(data, '\n', (size_t)(end - data))); data++) n++;
    return n;
}

void rk_source_free(rk_source *s) {
    if (!s) return;
    close_file(s);
    rk_columns_release(&s->columns);
    rk_chunk_release(&s->own);
    rk_free(s->packed);
    for (size_t i = 0; s->wanted && i < s->options.n_wanted; i++) rk_free(s->wanted[i]);
    RK_FREE_ALL(s->wanted, s);
}

static rk_status open_file(rk_source *s) {
    rk_data_format format;
    s->next_line = 1;
    if (rk_path_is_memory_stream(rk_source_path(s))) return rk_arrow_reader_open(s);
    RK_TRY(rk_source_format(s->options.section, rk_source_path(s), &format));
    if (format == RK_DATA_RKB) return rk_rkb_reader_open(s);
    if (format == RK_DATA_PARQUET) return rk_parquet_reader_open(s);
    RK_TRY(rk_byte_stream_open(rk_source_path(s), &s->stream));
    s->lookahead.stream = s->stream;
    switch (format) {
        case RK_DATA_ADJACENCY:
            return rk_adjacency_reader_open(s);
        case RK_DATA_LIBSVM:
            return rk_libsvm_reader_open(s);
        case RK_DATA_TFRECORD:
            return rk_tfrecord_reader_open(s);
        case RK_DATA_TSV:
            return rk_csv_reader_open(s, '\t');
        default:
            return rk_csv_reader_open(s, ',');
    }
}

/* The bytes of the next piece; 0: the lookahead holds none that is whole. */
static size_t cut_next_piece(rk_source *s) {
    const rk_byte_lookahead *l = &s->lookahead;
    size_t n = 0;
    for (size_t room = s->piece_bytes; n == 0; room *= 2) { /* a record may be larger than a piece */
        n = s->reader->cut(s, l->data, room < l->n_bytes ? room : l->n_bytes);
        if (room >= l->n_bytes) break;
    }
    return n || !l->at_end ? n : l->n_bytes;
}

rk_status rk_source_extend_lookahead(rk_source *s) {
    rk_byte_lookahead *l = &s->lookahead;
    if (l->n_bytes >= RK_MAX_RECORD_BYTES)
        return rk_error_hint(
            rk_error(RK_BAD_DATA, "'%s': byte %llu: a record of more than %d MiB", rk_source_path(s),
                     (unsigned long long)l->position, RK_MAX_RECORD_BYTES >> 20),
            "check data.format, or look for a quote that is not closed");
    size_t need = l->n_bytes < RK_PIECE_BYTES / 2 ? RK_PIECE_BYTES : 2 * l->n_bytes;
    return rk_byte_lookahead_fill(l, need < RK_MAX_RECORD_BYTES ? need : RK_MAX_RECORD_BYTES);
}

static rk_status read_stream_chunk(rk_source *s, rk_chunk *chunk, bool *found) {
    rk_byte_lookahead *l = &s->lookahead;
    RK_TRY(rk_byte_lookahead_fill(l, s->piece_bytes));
    *found = l->n_bytes > 0;
    if (!*found) return RK_OK;
    size_t n;
    while ((n = cut_next_piece(s)) == 0) RK_TRY(rk_source_extend_lookahead(s));
    chunk->data = l->data;
    chunk->n_bytes = n;
    chunk->position = l->position;
    return rk_byte_lookahead_swap_buffer(l, n, &chunk->memory, &chunk->memory_bytes);
}

rk_status rk_source_allow_packed_column(rk_source *s, int32_t column) {
    if (!s->packed) RK_TRY(rk_alloc(s->options.n_wanted, sizeof *s->packed, &s->packed));
    s->packed[column] = true;
    return RK_OK;
}

void rk_source_take_any_bits(rk_source *s) {
    s->options.any_bits = true;
}

rk_status rk_source_next_file(rk_source *s, bool *found) {
    if (s->reader) {
        close_file(s);
        s->file++;
    }
    *found = s->file < s->options.n_paths;
    if (!*found) return RK_OK;
    rk_status status = open_file(s);
    if (status != RK_OK) close_file(s);
    return status;
}

rk_status rk_source_next_piece(rk_source *s, rk_chunk *chunk, bool *found) {
    *found = false;
    chunk->known_rows = -1;
    if (!s->reader) return RK_OK;
    return s->reader->cut ? read_stream_chunk(s, chunk, found) : s->reader->next(s, chunk, found);
}

/* The columns of the chunk, empty, as the source's. */
static rk_status init_chunk_columns(const rk_source *s, rk_chunk *chunk) {
    chunk->n_lines = chunk->n_skipped = 0;
    chunk->status = RK_OK;
    chunk->error_at = RK_AT_NOWHERE;
    if (!chunk->columns.columns) return rk_columns_init_like(&chunk->columns, &s->columns);
    rk_columns_clear(&chunk->columns);
    return RK_OK;
}

static rk_status fill_path_columns(const rk_source *s, rk_chunk *chunk) {
    for (size_t i = 0; i < s->n_path_columns; i++) {
        const char *value = s->path_columns[i].value;
        rk_column *column = &chunk->columns.columns[s->path_columns[i].place];
        rk_column_set_type(column, RK_COLUMN_TEXT);
        column->n_text_bytes = 0;
        if (*value) RK_TRY(rk_column_add_text(column, (rk_span){value, strlen(value)}));
        RK_TRY(rk_column_repeat_row(column, chunk->columns.n_rows));
    }
    return RK_OK;
}

void rk_source_parse_chunk(const rk_source *s, rk_chunk *chunk) {
    chunk->status = init_chunk_columns(s, chunk);
    if (chunk->status == RK_OK) chunk->status = s->reader->parse(s, chunk);
    if (chunk->status == RK_OK) chunk->status = fill_path_columns(s, chunk);
    if (chunk->status != RK_OK) rk_error_copy(chunk->error, sizeof chunk->error);
}

void rk_source_skip_chunk(const rk_source *s, rk_chunk *chunk) {
    chunk->status = init_chunk_columns(s, chunk);
    if (chunk->status != RK_OK) rk_error_copy(chunk->error, sizeof chunk->error);
    chunk->n_lines = chunk->known_rows;
}

rk_status rk_source_finish_chunk(rk_source *s, rk_chunk *chunk) {
    chunk->first_line = s->next_line;
    s->next_line += chunk->n_lines;
    s->n_skipped += chunk->n_skipped;
    if (chunk->status == RK_OK) return RK_OK;
    rk_status status = rk_error(chunk->status, "%s", chunk->error);
    if (chunk->error_at == RK_AT_LINE)
        return rk_error_context(status, "'%s': line %lld", rk_source_path(s), (long long)s->next_line);
    if (chunk->error_at == RK_AT_RECORD)
        return rk_error_context(status, "'%s': record %lld, byte %llu", rk_source_path(s),
                                (long long)s->next_line,
                                (unsigned long long)(chunk->position + chunk->error_byte));
    return status;
}

rk_status rk_source_read_chunk(rk_source *s, const rk_chunk **out) {
    rk_chunk *chunk = &s->own;
    for (bool found = false;;) {
        RK_TRY(rk_source_next_piece(s, chunk, &found));
        bool more = found;
        if (!found) RK_TRY(rk_source_next_file(s, &more));
        if (!more) {
            RK_TRY(init_chunk_columns(s, chunk));
            break;
        }
        if (!found) continue;
        rk_source_parse_chunk(s, chunk);
        RK_TRY(rk_source_finish_chunk(s, chunk));
        if (chunk->columns.n_rows > 0) break;
    }
    *out = chunk;
    return RK_OK;
}

rk_status rk_source_check(rk_source *s) {
    const rk_chunk *chunk;
    RK_TRY(rk_source_read_chunk(s, &chunk));
    RK_FAIL_IF(chunk->columns.n_rows == 0, RK_BAD_DATA, "'%s' has no rows", s->options.paths[0]);
    for (bool found = true; found;) RK_TRY(rk_source_next_file(s, &found));
    return RK_OK;
}

int64_t rk_source_n_skipped(const rk_source *s) {
    return s->n_skipped;
}

void rk_source_format_location(const rk_source *s, const rk_chunk *chunk, int64_t row, char *out,
                               size_t out_bytes) {
    int64_t line = chunk->first_line + chunk->lines[row];
    bool is_row = s->reader && s->reader->counts_rows;
    snprintf(out, out_bytes, "'%s': %s %lld", rk_source_path(s), is_row ? "row" : "line",
             (long long)(is_row ? line - 1 : line));
}

double rk_source_progress(const rk_source *s) {
    if (s->total_bytes <= 0) return -1;
    double done = s->finished_bytes + (s->stream ? (double)rk_byte_stream_file_position(s->stream) : 0);
    return done < s->total_bytes ? done / s->total_bytes : 1;
}
