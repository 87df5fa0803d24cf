#include <string.h>

#include "base/memory.h"
#include "data/source/source_internal.h"
#include "format/rkb/rkb.h"

typedef struct rkb_state {
    rk_rkb *file;
    int64_t block;           /* the next one */
    rk_file_column *columns; /* [n_columns] */
    bool *wanted, *packed;   /* [n_columns] */
} rkb_state;

static rk_status next_rkb_chunk(rk_source *s, rk_chunk *chunk, bool *found) {
    rkb_state *state = s->state;
    *found = state->block < rk_rkb_n_blocks(state->file);
    if (*found) chunk->known_rows = rk_rkb_block_rows(state->file, state->block);
    chunk->block = state->block++;
    return RK_OK;
}

/* The file's columns in a chunk's memory; those of a file before may have been others. */
static bool has_columns_of_file(const rk_rkb *file, const rk_columns *columns) {
    if (columns->n_columns != rk_rkb_n_columns(file)) return false;
    for (int32_t c = 0; c < columns->n_columns; c++)
        if (columns->columns[c].type != rk_rkb_column_type(file, c) ||
            strcmp(columns->columns[c].name, rk_rkb_column_name(file, c)) != 0)
            return false;
    return true;
}

/* An empty text is no value, as in every format; writers other than this library's may hold some. */
static void drop_empty_texts(rk_column *column, int64_t n_rows) {
    int64_t first = 0, kept = 0;
    if (column->type != RK_COLUMN_TEXT) return;
    while (first < column->n_values && column->places[first].n_bytes) first++;
    if (first == column->n_values) return;
    for (int64_t row = 0, v = 0; row < n_rows; row++) {
        for (int64_t end = column->offsets[row + 1]; v < end; v++) {
            if (column->places[v].n_bytes == 0) continue;
            column->places[kept] = column->places[v];
            if (column->weights) column->weights[kept] = column->weights[v];
            kept++;
        }
        column->offsets[row + 1] = kept;
    }
    column->n_values = kept;
    column->per_row = -1;
    column->alike_rows = 0;
}

/* The block's columns change places with the chunk's: nothing is copied. */
static rk_status parse_rkb(const rk_source *s, rk_chunk *chunk) {
    const rkb_state *state = s->state;
    rk_columns *from = &chunk->file_columns, *to = &chunk->columns;
    if (from->columns && !has_columns_of_file(state->file, from)) rk_columns_release(from);
    RK_TRY(rk_rkb_read_block_columns(state->file, chunk->block, (rk_rkb_choice){state->wanted, state->packed},
                                     &chunk->rkb, from));
    int64_t n = from->n_rows;
    RK_TRY(rk_chunk_reserve(chunk, n));
    for (int32_t c = 0; c < to->n_columns; c++) {
        if (rk_columns_find(from, to->columns[c].name) >= 0) continue;
        RK_TRY(rk_column_set_empty_rows(&to->columns[c], n)); /* the file has not got it */
    }
    for (int32_t c = 0; c < from->n_columns; c++) {
        if (state->columns[c].place < 0) continue;
        rk_column *column = &to->columns[state->columns[c].place], swapped = *column;
        *column = from->columns[c];
        from->columns[c] = swapped;
        drop_empty_texts(column, n);
    }
    for (int64_t row = 0; row < n; row++) chunk->lines[row] = row;
    to->n_rows = chunk->n_lines = n;
    return RK_OK;
}

static void close_rkb(rk_source *s) {
    rkb_state *state = s->state;
    rk_rkb_free(state->file);
    RK_FREE_ALL(state->columns, state->wanted, state->packed, state);
}

static const rk_file_reader reader = {.next = next_rkb_chunk, .parse = parse_rkb, .close = close_rkb};

rk_status rk_rkb_reader_open(rk_source *s) {
    rkb_state *state;
    RK_TRY(rk_alloc(1, sizeof *state, &state));
    s->state = state;
    s->reader = &reader;
    RK_TRY(rk_rkb_open(rk_source_path(s), &state->file));
    size_t n = (size_t)rk_rkb_n_columns(state->file);
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n, state->columns), RK_ARRAY(n, state->wanted), RK_ARRAY(n, state->packed)));
    for (size_t i = 0; i < n; i++)
        state->columns[i] = (rk_file_column){rk_rkb_column_name(state->file, (int32_t)i),
                                             rk_rkb_column_type(state->file, (int32_t)i), 0};
    RK_TRY(rk_source_map_columns(s, state->columns, n));
    for (size_t i = 0; i < n; i++) {
        state->wanted[i] = state->columns[i].place >= 0;
        state->packed[i] = state->wanted[i] && s->packed && s->packed[state->columns[i].place];
    }
    return RK_OK;
}
