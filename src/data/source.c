#include "data/source.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/name_index.h"
#include "data/source_parts.h"

rk_status rk_source_open(const rk_source_options *options, rk_source **out) {
    rk_source *s;
    RK_TRY(rk_alloc(1, sizeof *s, &s));
    s->options = *options;
    s->options.wanted = NULL;
    rk_status copied = options->wanted ? rk_alloc(options->n_wanted, sizeof *s->wanted, &s->wanted) : RK_OK;
    for (size_t i = 0; copied == RK_OK && options->wanted && i < options->n_wanted; i++) copied = rk_strdup(options->wanted[i], &s->wanted[i]);
    if (copied != RK_OK) {
        rk_source_free(s);
        return copied;
    }
    if (options->wanted) s->options.wanted = (const char *const *)s->wanted;
    for (size_t i = 0; i < options->n_paths; i++) {
        uint64_t n_bytes = 0;
        if (strcmp(options->paths[i], "-") == 0) continue;
        rk_status status = rk_file_size(options->paths[i], &n_bytes);
        if (status != RK_OK) {
            rk_source_free(s);
            return status;
        }
        s->total_bytes += (double)n_bytes;
    }
    *out = s;
    return RK_OK;
}

void rk_chunk_release(rk_chunk *chunk) {
    rk_columns_release(&chunk->columns);
    rk_columns_release(&chunk->file_columns);
    rk_csv_record_release(&chunk->record);
    rk_libsvm_row_release(&chunk->libsvm);
    rk_rkb_memory_release(&chunk->rkb);
    rk_free(chunk->memory);
    rk_free(chunk->lines);
    rk_free(chunk->places);
    rk_free(chunk->spans);
    *chunk = (rk_chunk){0};
}

static void close_file(rk_source *s) {
    if (s->reader) s->reader->close(s);
    s->reader = NULL;
    s->state = NULL;
    if (s->stream) s->finished_bytes += (double)rk_stream_file_position(s->stream);
    rk_lookahead_release(&s->lookahead);
    rk_stream_free(s->stream);
    s->stream = NULL;
}

void rk_source_free(rk_source *s) {
    if (!s) return;
    close_file(s);
    rk_columns_release(&s->columns);
    rk_chunk_release(&s->own);
    rk_free(s->packed);
    if (s->wanted) rk_free_strings(s->wanted, s->options.n_wanted);
    rk_free(s);
}

static rk_status open_file(rk_source *s) {
    rk_data_format format;
    RK_TRY(rk_source_format(s->options.section, rk_source_path(s), &format));
    s->next_line = 1;
    if (format == RK_DATA_RKB) return rk_rkb_reader_open(s);
    RK_TRY(rk_stream_open(rk_source_path(s), &s->stream));
    s->lookahead.stream = s->stream;
    switch (format) {
        case RK_DATA_ADJACENCY: return rk_adjacency_reader_open(s);
        case RK_DATA_LIBSVM: return rk_libsvm_reader_open(s);
        case RK_DATA_TFRECORD: return rk_tfrecord_reader_open(s);
        case RK_DATA_TSV: return rk_csv_reader_open(s, '\t');
        default: return rk_csv_reader_open(s, ',');
    }
}

static rk_status missing_column(const rk_source *s, const char *name, const char *const *names, size_t n) {
    rk_status status = rk_error(RK_CONFIG, "'%s' has no column '%s'", rk_source_path(s), name);
    const char *nearest = rk_nearest(name, names, n);
    if (nearest) return rk_error_hint(status, "did you mean '%s'?", nearest);
    char list[512] = "";
    for (size_t k = 0; k < n && strlen(list) + strlen(names[k]) + 3 < sizeof list; k++) {
        if (k) strcat(list, ", ");
        strcat(list, names[k]);
    }
    return rk_error_hint(status, "its columns are %s", list);
}

/* found: the file's columns by name. */
static rk_status make_columns(rk_source *s, const char *const *names, const rk_column_type *types, size_t n, const rk_name_index *found) {
    const rk_source_options *o = &s->options;
    rk_column_type *kinds = NULL;
    size_t n_made = o->wanted ? o->n_wanted : n;
    RK_TRY(rk_alloc(n_made, sizeof *kinds, &kinds));
    for (size_t i = 0; i < n_made; i++) {
        int32_t place = o->wanted ? rk_name_index_find(found, o->wanted[i]) : (int32_t)i;
        if (place >= 0) kinds[i] = types[place];
    }
    rk_status status = rk_columns_init(&s->columns, (int32_t)n_made, o->wanted ? o->wanted : names, kinds);
    rk_free(kinds);
    RK_TRY(status);
    s->has_columns = true;
    return RK_OK;
}

static rk_status map_columns(rk_source *s, const char *const *names, const rk_column_type *types, size_t n, const rk_name_index *found, int32_t *map) {
    const rk_source_options *o = &s->options;
    for (size_t w = o->n_optional; o->wanted && w < o->n_wanted; w++)
        if (rk_name_index_find(found, o->wanted[w]) < 0) return missing_column(s, o->wanted[w], names, n);
    if (!s->has_columns) RK_TRY(make_columns(s, names, types, n, found));
    rk_name_index made;
    RK_TRY(rk_name_index_init(&made, s->columns.columns, sizeof *s->columns.columns, offsetof(rk_column, name), s->columns.n_columns));
    for (size_t i = 0; i < n; i++) map[i] = rk_name_index_find(&made, names[i]);
    rk_name_index_release(&made);
    for (size_t i = 0; i < n; i++)
        RK_FAIL_IF(map[i] >= 0 && s->columns.columns[map[i]].type != types[i], RK_BAD_DATA, "'%s': column '%s' is %s here and %s in the files before", rk_source_path(s), names[i],
                   rk_column_type_name(types[i]), rk_column_type_name(s->columns.columns[map[i]].type));
    return RK_OK;
}

rk_status rk_source_map_columns(rk_source *s, const char *const *names, const rk_column_type *types, size_t n, int32_t *map) {
    rk_name_index found;
    RK_TRY(rk_name_index_init(&found, names, sizeof *names, 0, (int32_t)n));
    rk_status status = map_columns(s, names, types, n, &found, map);
    rk_name_index_release(&found);
    return status;
}

rk_status rk_chunk_reserve(rk_chunk *chunk, int64_t n_rows) {
    if (n_rows <= chunk->lines_capacity) return RK_OK;
    int64_t capacity = n_rows + n_rows / 2 + 64;
    RK_TRY(rk_realloc((size_t)capacity, sizeof *chunk->lines, &chunk->lines));
    chunk->lines_capacity = capacity;
    return RK_OK;
}

rk_status rk_chunk_end_row(const rk_source *s, rk_chunk *chunk, rk_status status) {
    rk_columns *columns = &chunk->columns;
    if (status == RK_BAD_DATA && s->options.section && s->options.section->on_bad_row == 1) {
        rk_columns_drop_row(columns);
        chunk->n_skipped++;
        return RK_OK;
    }
    if (status != RK_OK) {
        chunk->error_at = RK_AT_LINE;
        return status;
    }
    RK_TRY(rk_chunk_reserve(chunk, columns->n_rows + 1));
    chunk->lines[columns->n_rows] = chunk->n_lines;
    return rk_columns_end_row(columns);
}

/* The bytes of the next piece; 0: the lookahead holds none that is whole. */
static size_t cut_piece(rk_source *s) {
    const rk_lookahead *l = &s->lookahead;
    size_t n = l->n_bytes < RK_PIECE_BYTES ? l->n_bytes : RK_PIECE_BYTES;
    if (n == l->n_bytes && l->at_end) return n;
    n = n ? s->reader->cut(s, l->data, n) : 0;
    if (n || l->n_bytes <= RK_PIECE_BYTES) return n;
    n = s->reader->cut(s, l->data, l->n_bytes); /* a record larger than a piece */
    return n || !l->at_end ? n : l->n_bytes;
}

static rk_status take_stream(rk_source *s, rk_chunk *chunk, bool *found) {
    rk_lookahead *l = &s->lookahead;
    RK_TRY(rk_lookahead_fill(l, RK_PIECE_BYTES));
    *found = l->n_bytes > 0;
    if (!*found) return RK_OK;
    size_t n;
    while ((n = cut_piece(s)) == 0) RK_TRY(rk_lookahead_fill(l, l->n_bytes * 2));
    RK_FAIL_IF(n > INT32_MAX, RK_UNSUPPORTED, "'%s': byte %llu: a record of more than 2 GiB", rk_source_path(s), (unsigned long long)l->position);
    chunk->data = l->data;
    chunk->n_bytes = n;
    chunk->position = l->position;
    chunk->at_end = l->at_end && n == l->n_bytes;
    return rk_lookahead_hand_over(l, n, &chunk->memory, &chunk->memory_bytes);
}

rk_status rk_source_keep_packed(rk_source *s, int32_t column) {
    if (!s->packed) RK_TRY(rk_alloc(s->options.n_wanted, sizeof *s->packed, &s->packed));
    s->packed[column] = true;
    return RK_OK;
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

rk_status rk_source_take(rk_source *s, rk_chunk *chunk, bool *found) {
    *found = false;
    if (!s->reader) return RK_OK;
    return s->reader->cut ? take_stream(s, chunk, found) : s->reader->next(s, chunk, found);
}

/* The columns of the chunk, empty, as the source's. */
static rk_status begin_chunk(const rk_source *s, rk_chunk *chunk) {
    chunk->n_lines = chunk->n_skipped = 0;
    chunk->status = RK_OK;
    chunk->error_at = RK_AT_NOWHERE;
    if (!chunk->columns.columns) return rk_columns_init_like(&chunk->columns, &s->columns);
    rk_columns_clear(&chunk->columns);
    return RK_OK;
}

void rk_source_parse(const rk_source *s, rk_chunk *chunk) {
    rk_status status = begin_chunk(s, chunk);
    if (status == RK_OK) status = s->reader->parse(s, chunk);
    chunk->status = status;
    if (status != RK_OK) rk_error_copy(chunk->error, sizeof chunk->error);
}

rk_status rk_source_place(rk_source *s, rk_chunk *chunk) {
    chunk->first_line = s->next_line;
    s->next_line += chunk->n_lines;
    s->n_skipped += chunk->n_skipped;
    if (chunk->status == RK_OK) return RK_OK;
    rk_status status = rk_error(chunk->status, "%s", chunk->error);
    if (chunk->error_at == RK_AT_LINE) return rk_error_context(status, "'%s': line %lld", rk_source_path(s), (long long)s->next_line);
    if (chunk->error_at == RK_AT_RECORD)
        return rk_error_context(status, "'%s': record %lld, byte %llu", rk_source_path(s), (long long)s->next_line, (unsigned long long)(chunk->position + chunk->error_byte));
    return status;
}

rk_status rk_source_read(rk_source *s, const rk_chunk **out) {
    rk_chunk *chunk = &s->own;
    for (bool found = false;;) {
        RK_TRY(rk_source_take(s, chunk, &found));
        bool more = found;
        if (!found) RK_TRY(rk_source_next_file(s, &more));
        if (!more) {
            RK_TRY(begin_chunk(s, chunk));
            break;
        }
        if (!found) continue;
        rk_source_parse(s, chunk);
        RK_TRY(rk_source_place(s, chunk));
        if (chunk->columns.n_rows > 0) break;
    }
    *out = chunk;
    return RK_OK;
}

int64_t rk_source_n_skipped(const rk_source *s) {
    return s->n_skipped;
}

void rk_source_where(const rk_source *s, const rk_chunk *chunk, int64_t row, char *out, size_t out_bytes) {
    snprintf(out, out_bytes, "'%s': line %lld", rk_source_path(s), (long long)(chunk->first_line + chunk->lines[row]));
}

double rk_source_progress(const rk_source *s) {
    if (s->total_bytes <= 0) return -1;
    double done = s->finished_bytes + (s->stream ? (double)rk_stream_file_position(s->stream) : 0);
    return done < s->total_bytes ? done / s->total_bytes : 1;
}
