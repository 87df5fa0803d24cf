#include <string.h>

#include "base/memory.h"
#include "data/source_parts.h"
#include "format/rkb.h"

typedef struct rkb_state {
    rk_rkb *file;
    int64_t block, row; /* the next row: of the block in `rows` */
    rk_columns rows;    /* the block being handed out */
    int32_t *map;       /* [n_columns] */
    bool *wanted;
} rkb_state;

static rk_status copy_values(const rk_column *from, int64_t row, rk_column *to) {
    for (int64_t v = from->offsets[row]; v < from->offsets[row + 1]; v++) {
        if (from->type == RK_COLUMN_TEXT) RK_TRY(rk_column_add_text(to, rk_column_text(from, v)));
        if (from->type == RK_COLUMN_I64) RK_TRY(rk_column_add_i64(to, from->i64[v]));
        if (from->type == RK_COLUMN_F32) RK_TRY(rk_column_add_f32(to, from->f32[v]));
        if (from->weights) RK_TRY(rk_column_add_weight(to, from->weights[v]));
    }
    return RK_OK;
}

static rk_status read_rows(rk_source *s, int64_t max_rows, bool *at_end) {
    rkb_state *state = s->state;
    while (s->columns.n_rows < max_rows) {
        if (state->row == state->rows.n_rows) {
            if (state->block == rk_rkb_n_blocks(state->file)) {
                *at_end = true;
                return RK_OK;
            }
            RK_TRY(rk_rkb_read_block(state->file, state->block++, state->wanted, &state->rows));
            state->row = 0;
            continue;
        }
        rk_status status = RK_OK;
        for (int32_t c = 0; status == RK_OK && c < state->rows.n_columns; c++)
            if (state->map[c] >= 0) status = copy_values(&state->rows.columns[c], state->row, &s->columns.columns[state->map[c]]);
        state->row++;
        s->line++;
        RK_TRY(rk_source_end_row(s, status));
    }
    return RK_OK;
}

static void close_reader(rk_source *s) {
    rkb_state *state = s->state;
    rk_rkb_free(state->file);
    rk_columns_release(&state->rows);
    rk_free(state->map);
    rk_free(state->wanted);
    rk_free(state);
}

static const rk_file_reader reader = {read_rows, close_reader};

rk_status rk_rkb_reader_open(rk_source *s) {
    rkb_state *state;
    RK_TRY(rk_alloc(1, sizeof *state, &state));
    s->state = state;
    s->reader = &reader;
    RK_TRY(rk_rkb_open(rk_source_path(s), &state->file));
    size_t n = (size_t)rk_rkb_n_columns(state->file);
    const char **names = NULL;
    rk_column_type *types = NULL;
    rk_status status;
    RK_GOTO(rk_alloc(n, sizeof *names, &names));
    RK_GOTO(rk_alloc(n, sizeof *types, &types));
    RK_GOTO(rk_alloc(n, sizeof *state->map, &state->map));
    RK_GOTO(rk_alloc(n, sizeof *state->wanted, &state->wanted));
    for (size_t i = 0; i < n; i++) {
        names[i] = rk_rkb_column_name(state->file, (int32_t)i);
        types[i] = rk_rkb_column_type(state->file, (int32_t)i);
    }
    RK_GOTO(rk_source_map_columns(s, names, types, n, state->map));
    for (size_t i = 0; i < n; i++) state->wanted[i] = state->map[i] >= 0;
done:
    rk_free(names);
    rk_free(types);
    return status;
}
