/* Lines `user item item ...`: a row for each pair of the line's user and one of its items
 * (docs/formats/adjacency.md). */
#include <string.h>

#include "base/memory.h"
#include "data/source/source_internal.h"
#include "format/text/adjacency.h"

typedef struct adjacency_state {
    int32_t user, item; /* places in the columns, or -1 */
} adjacency_state;

static rk_status append_pair(const rk_source *s, rk_chunk *chunk, int64_t user, int64_t item) {
    const adjacency_state *state = s->state;
    if (state->user >= 0) RK_TRY(rk_column_add_i64(&chunk->columns.columns[state->user], user));
    return state->item < 0 ? RK_OK : rk_column_add_i64(&chunk->columns.columns[state->item], item);
}

/* A user without items is a row for those who can do without items. */
static rk_status append_user(const rk_source *s, rk_chunk *chunk, int64_t user) {
    const adjacency_state *state = s->state;
    if (state->item < 0 || (size_t)state->item >= s->options.n_optional || state->user < 0) return RK_OK;
    RK_TRY(rk_column_add_i64(&chunk->columns.columns[state->user], user));
    return rk_chunk_end_row(s, chunk, RK_OK);
}

static rk_status parse_line(const rk_source *s, rk_chunk *chunk, const char *data, size_t n_bytes) {
    rk_adjacency_line line;
    rk_status status = rk_adjacency_begin_line(data, n_bytes, &line);
    if (status != RK_OK) return rk_chunk_end_row(s, chunk, status);
    for (bool first = true;; first = false) {
        int64_t item;
        bool found;
        status = rk_adjacency_next_item(&line, &item, &found);
        if (!found) return first && !line.is_blank ? append_user(s, chunk, line.user) : RK_OK;
        if (status == RK_OK) status = append_pair(s, chunk, line.user, item);
        RK_TRY(rk_chunk_end_row(s, chunk, status));
    }
}

static size_t cut_adjacency_piece(rk_source *s, const char *data, size_t n_bytes) {
    (void)s;
    const char *end = memrchr(data, '\n', n_bytes);
    return end ? (size_t)(end + 1 - data) : 0;
}

static rk_status parse_adjacency(const rk_source *s, rk_chunk *chunk) {
    return rk_chunk_for_each_line(s, chunk, parse_line);
}

static void close_adjacency(rk_source *s) {
    rk_free(s->state);
}

static const rk_file_reader reader = {.cut = cut_adjacency_piece,
                                      .lines = rk_count_lines,
                                      .many_rows_a_line = true,
                                      .parse = parse_adjacency,
                                      .close = close_adjacency};

rk_status rk_adjacency_reader_open(rk_source *s) {
    const rk_data_section *section = s->options.section;
    rk_file_column columns[2] = {{"user", RK_COLUMN_I64, 0}, {"item", RK_COLUMN_I64, 0}};
    adjacency_state *state;
    RK_FAIL_IF(section && section->n_columns && section->n_columns != 2, RK_CONFIG,
               "'%s' has the two columns of an adjacency list, but 'columns' names %lld", rk_source_path(s),
               (long long)section->n_columns);
    for (int i = 0; section && section->n_columns && i < 2; i++) columns[i].name = section->columns[i];
    RK_TRY(rk_alloc(1, sizeof *state, &state));
    s->state = state;
    s->reader = &reader;
    RK_TRY(rk_source_map_columns(s, columns, 2));
    *state = (adjacency_state){columns[0].place, columns[1].place};
    return RK_OK;
}
