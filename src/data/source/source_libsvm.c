#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/source/source_internal.h"
#include "format/text/libsvm.h"

/* The columns: "label", "qid", then "ids" or the section's fields. */
typedef struct libsvm_state {
    int32_t label, group; /* places in the columns, or -1 */
    const rk_file_column *ids;
    rk_file_column columns[];
} libsvm_state;

static rk_status append_id(const rk_source *s, rk_chunk *chunk, size_t i) {
    const rk_data_section *section = s->options.section;
    const libsvm_state *state = s->state;
    int64_t id = chunk->libsvm.ids[i];
    float value = chunk->libsvm.values[i];
    int64_t f = 0;
    if (section && section->n_fields) {
        while (f < section->n_fields && (id < section->fields[f].first || id > section->fields[f].last)) f++;
        RK_FAIL_IF(f == section->n_fields, RK_BAD_DATA, "index %lld is in no range of data.fields",
                   (long long)id);
        id -= section->fields[f].first;
    }
    const int32_t place = state->ids[f].place;
    if (place < 0) return RK_OK;
    RK_TRY(rk_column_add_i64(&chunk->columns.columns[place], id));
    return value == 1.0f ? RK_OK : rk_column_add_weight(&chunk->columns.columns[place], value);
}

static rk_status parse_line_values(const rk_source *s, rk_chunk *chunk, const char *line, size_t n_bytes,
                                   bool *blank) {
    const libsvm_state *state = s->state;
    rk_libsvm_row *row = &chunk->libsvm;
    rk_column *columns = chunk->columns.columns;
    RK_TRY(rk_libsvm_parse(line, n_bytes, row));
    *blank = row->n_labels == 0;
    for (size_t i = 0; state->label >= 0 && i < row->n_labels; i++)
        RK_TRY(rk_column_add_f32(&columns[state->label], row->labels[i]));
    if (state->group >= 0 && row->has_group) RK_TRY(rk_column_add_i64(&columns[state->group], row->group));
    for (size_t i = 0; i < row->n_ids; i++) RK_TRY(append_id(s, chunk, i));
    return RK_OK;
}

static rk_status append_line(const rk_source *s, rk_chunk *chunk, const char *line, size_t n_bytes) {
    bool blank = false;
    rk_status status = parse_line_values(s, chunk, line, n_bytes, &blank);
    return blank && status == RK_OK ? RK_OK : rk_chunk_end_row(s, chunk, status);
}

/* A row has two bytes at least, and may have no value in any of many fields. */
static size_t cut_libsvm_piece(rk_source *s, const char *data, size_t n_bytes) {
    size_t most = 2 * (RK_MAX_PIECE_CELLS / ((size_t)s->columns.n_columns + 1) + 1);
    const char *end = memrchr(data, '\n', n_bytes < most ? n_bytes : most);
    if (!end && n_bytes > most) end = memchr(data + most, '\n', n_bytes - most);
    return end ? (size_t)(end + 1 - data) : 0;
}

static rk_status parse_libsvm(const rk_source *s, rk_chunk *chunk) {
    return rk_chunk_for_each_line(s, chunk, append_line);
}

static void close_libsvm(rk_source *s) {
    rk_free(s->state);
}

static const rk_file_reader reader = {
    .cut = cut_libsvm_piece, .lines = rk_count_lines, .parse = parse_libsvm, .close = close_libsvm};

rk_status rk_libsvm_reader_open(rk_source *s) {
    const rk_data_section *section = s->options.section;
    size_t n_fields = section ? (size_t)section->n_fields : 0, n = 2 + (n_fields ? n_fields : 1);
    libsvm_state *state;
    RK_TRY(rk_alloc(1, sizeof *state + n * sizeof *state->columns, &state));
    s->state = state;
    s->reader = &reader;
    rk_file_column *columns = state->columns;
    columns[0] = (rk_file_column){"label", RK_COLUMN_F32, 0};
    columns[1] = (rk_file_column){"qid", RK_COLUMN_I64, 0};
    for (size_t f = 0; f < n - 2; f++)
        columns[2 + f] = (rk_file_column){n_fields ? section->fields[f].name : "ids", RK_COLUMN_I64, 0};
    RK_TRY(rk_source_map_columns(s, columns, n));
    state->label = columns[0].place;
    state->group = columns[1].place;
    state->ids = columns + 2;
    return RK_OK;
}
