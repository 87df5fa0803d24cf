/* What readers of every format share: the columns of a file, the rows of a chunk. */
#include <stddef.h>
#include <string.h>

#include "base/memory.h"
#include "base/text/find_text.h"
#include "base/text/name_index.h"
#include "data/source/source_internal.h"

static rk_status missing_column_error(const rk_source *s, const char *name, const rk_file_column *columns,
                                      size_t n) {
    const char *nearest =
        rk_nearest_name_of(name, columns, sizeof *columns, offsetof(rk_file_column, name), n);
    rk_status status = rk_error(RK_CONFIG, "'%s' has no column '%s'", rk_source_path(s), name);
    if (nearest) return rk_error_hint(status, "did you mean '%s'?", nearest);
    char list[512] = "";
    for (size_t k = 0; k < n && strlen(list) + strlen(columns[k].name) + 3 < sizeof list; k++) {
        if (k) strcat(list, ", ");
        strcat(list, columns[k].name);
    }
    for (char *c = list; *c; c++)
        if ((unsigned char)*c < ' ') *c = '?'; /* what is no text shall not steer a terminal */
    return rk_error_hint(status, "its columns are %s", list);
}

/* A name that stands twice would be a column of two values a row, but those that nothing reads may be called
 * what they like. */
static rk_status check_duplicate_columns(const rk_source *s, const rk_file_column *columns, size_t n,
                                         const rk_name_index *found) {
    for (size_t i = 0; i < n; i++)
        if (columns[i].place >= 0 && rk_name_index_find(found, columns[i].name) != (int32_t)i)
            return rk_error_hint(
                rk_error(RK_CONFIG, "'%s' has two columns '%s'", rk_source_path(s), columns[i].name),
                "data.columns gives each a name of its own; with header: true in place of those of the first "
                "line");
    return RK_OK;
}

/* found: the file's columns by name. */
static rk_status create_wanted_columns(rk_source *s, const rk_file_column *columns, size_t n,
                                       const rk_name_index *found) {
    const rk_source_options *o = &s->options;
    RK_AUTOFREE const char **names = NULL;
    RK_AUTOFREE rk_column_type *types = NULL;
    size_t n_made = o->wanted ? o->n_wanted : n;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n_made, names), RK_ARRAY(n_made, types)));
    for (size_t i = 0; i < n_made; i++) {
        names[i] = o->wanted ? o->wanted[i] : columns[i].name;
        int32_t at = o->wanted ? rk_name_index_find(found, names[i]) : (int32_t)i;
        if (at >= 0) types[i] = columns[at].type;
    }
    RK_TRY(rk_columns_init(&s->columns, (int32_t)n_made, names, types));
    s->has_columns = true;
    return RK_OK;
}

bool rk_source_wants_column(const rk_source *s, const char *name) {
    return rk_text_is_one_of(name, s->options.wanted, s->options.n_wanted);
}

static rk_status changed_type_error(const rk_source *s, const char *name, rk_column_type here,
                                    rk_column_type before) {
    return rk_error(RK_BAD_DATA, "'%s': column '%s' is %s here and %s in the files before", rk_source_path(s),
                    name, rk_column_type_name(here), rk_column_type_name(before));
}

/* Columns that are wanted, and have no place in the file but in its path. */
static rk_status find_path_columns(rk_source *s, const rk_name_index *found) {
    const rk_source_options *o = &s->options;
    const rk_data_section *section = o->section;
    const char *path = rk_source_path(s);
    for (size_t w = 0; o->wanted && w < o->n_wanted; w++) {
        if (rk_name_index_find(found, o->wanted[w]) >= 0 || !rk_path_has_partition_value(path, o->wanted[w]))
            continue;
        if (s->columns.columns[w].type != RK_COLUMN_TEXT)
            return changed_type_error(s, o->wanted[w], RK_COLUMN_TEXT, s->columns.columns[w].type);
        if (!s->path_columns) RK_TRY(rk_alloc(o->n_wanted, sizeof *s->path_columns, &s->path_columns));
        rk_path_column *column = &s->path_columns[s->n_path_columns++];
        column->place = (int32_t)w;
        RK_TRY(rk_path_partition_value(path, o->wanted[w], &column->value));
        rk_span value = {column->value, strlen(column->value)};
        if (section && rk_span_is_one_of(value, section->missing, section->n_missing)) *column->value = 0;
    }
    return RK_OK;
}

static rk_status check_missing_columns(const rk_source *s, const rk_file_column *columns, size_t n,
                                       const rk_name_index *found) {
    const rk_source_options *o = &s->options;
    for (size_t w = o->n_optional; o->wanted && w < o->n_wanted; w++)
        if (rk_name_index_find(found, o->wanted[w]) < 0 &&
            !rk_path_has_partition_value(rk_source_path(s), o->wanted[w]))
            return missing_column_error(s, o->wanted[w], columns, n);
    return RK_OK;
}

rk_status rk_source_map_columns(rk_source *s, rk_file_column *columns, size_t n) {
    RK_AUTO(rk_name_index_release) rk_name_index found = {0}, made = {0};
    RK_TRY(rk_name_index_init(&found, columns, sizeof *columns, offsetof(rk_file_column, name), (int32_t)n));
    RK_TRY(check_missing_columns(s, columns, n, &found));
    if (!s->has_columns) RK_TRY(create_wanted_columns(s, columns, n, &found));
    RK_TRY(find_path_columns(s, &found));
    RK_TRY(rk_name_index_init(&made, s->columns.columns, sizeof *s->columns.columns,
                              offsetof(rk_column, name), s->columns.n_columns));
    for (size_t i = 0; i < n; i++) columns[i].place = rk_name_index_find(&made, columns[i].name);
    RK_TRY(check_duplicate_columns(s, columns, n, &found));
    for (size_t i = 0; i < n;
         i++) { /* no end pointer: without columns there may be no memory to point into */
        const rk_file_column *c = &columns[i];
        if (c->place >= 0 && s->columns.columns[c->place].type != c->type)
            return changed_type_error(s, c->name, c->type, s->columns.columns[c->place].type);
    }
    return RK_OK;
}

rk_status rk_chunk_reserve(rk_chunk *chunk, int64_t n_rows) {
    return rk_reserve(&chunk->lines, &chunk->lines_capacity, (size_t)n_rows, sizeof *chunk->lines);
}

rk_status rk_chunk_end_row(const rk_source *s, rk_chunk *chunk, rk_status status) {
    rk_columns *columns = &chunk->columns;
    if (status == RK_BAD_DATA && s->options.section && s->options.section->on_bad_row == 1) {
        rk_columns_drop_unended_row(columns);
        chunk->n_skipped++;
        return RK_OK;
    }
    if (status != RK_OK) {
        chunk->error_at = RK_AT_LINE;
        return status;
    }
    RK_TRY(rk_reserve_one_more(&chunk->lines, (size_t)columns->n_rows, &chunk->lines_capacity,
                               sizeof *chunk->lines));
    chunk->lines[columns->n_rows] = chunk->n_lines;
    return rk_columns_end_row(columns);
}

rk_status rk_chunk_for_each_line(const rk_source *s, rk_chunk *chunk,
                                 rk_status (*take)(const rk_source *source, rk_chunk *chunk, const char *line,
                                                   size_t n_bytes)) {
    for (size_t at = 0, n_bytes; at < chunk->n_bytes; at += n_bytes + 1, chunk->n_lines++) {
        const char *line = chunk->data + at, *end = memchr(line, '\n', chunk->n_bytes - at);
        n_bytes = end ? (size_t)(end - line) : chunk->n_bytes - at;
        RK_TRY(take(s, chunk, line, n_bytes));
    }
    return RK_OK;
}

static uint64_t bytes_of_columns(const rk_columns *columns) {
    uint64_t bytes = 0;
    for (int32_t c = 0; c < columns->n_columns; c++)
        bytes += (uint64_t)(columns->columns[c].rows_capacity + columns->columns[c].values_capacity) *
                     sizeof(int64_t) +
                 (uint64_t)columns->columns[c].text_capacity;
    return bytes;
}

uint64_t rk_chunk_bytes(const rk_chunk *chunk) {
    return chunk->memory_bytes + chunk->lines_capacity * sizeof *chunk->lines + chunk->rkb.capacity +
           bytes_of_columns(&chunk->columns) + bytes_of_columns(&chunk->file_columns);
}

void rk_chunk_release(rk_chunk *chunk) {
    rk_columns_release(&chunk->columns);
    rk_columns_release(&chunk->file_columns);
    rk_csv_record_release(&chunk->record);
    rk_libsvm_row_release(&chunk->libsvm);
    rk_rkb_memory_release(&chunk->rkb);
    rk_parquet_memory_release(&chunk->parquet);
    rk_arrow_array_unref(chunk->array);
    RK_FREE_ALL(chunk->memory, chunk->lines, chunk->places, chunk->spans);
    *chunk = (rk_chunk){0};
}
