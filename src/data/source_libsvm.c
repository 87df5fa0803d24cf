#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/source_parts.h"
#include "format/libsvm.h"

typedef struct libsvm_state {
    rk_libsvm_row row;
    int32_t label, ids, group; /* places in the columns, or -1 */
    int32_t *fields;           /* [section's n_fields] places, or -1 */
} libsvm_state;

static rk_status take_id(rk_source *s, libsvm_state *state, size_t i) {
    const rk_data_section *section = s->options.section;
    int64_t id = state->row.ids[i];
    float value = state->row.values[i];
    int32_t place = state->ids;
    if (section && section->n_fields) {
        int64_t f = 0;
        while (f < section->n_fields && (id < section->fields[f].first || id > section->fields[f].last)) f++;
        RK_FAIL_IF(f == section->n_fields, RK_BAD_DATA, "index %lld belongs to no field", (long long)id);
        place = state->fields[f];
        id -= section->fields[f].first;
    }
    if (place < 0) return RK_OK;
    RK_TRY(rk_column_add_i64(&s->columns.columns[place], id));
    return value == 1.0f ? RK_OK : rk_column_add_weight(&s->columns.columns[place], value);
}

static rk_status take_line(rk_source *s, libsvm_state *state, const char *line, size_t n_bytes, bool *blank) {
    RK_TRY(rk_libsvm_parse(line, n_bytes, &state->row));
    *blank = state->row.n_labels == 0;
    for (size_t i = 0; state->label >= 0 && i < state->row.n_labels; i++) RK_TRY(rk_column_add_f32(&s->columns.columns[state->label], state->row.labels[i]));
    if (state->group >= 0 && state->row.has_group) RK_TRY(rk_column_add_i64(&s->columns.columns[state->group], state->row.group));
    for (size_t i = 0; i < state->row.n_ids; i++) RK_TRY(take_id(s, state, i));
    return RK_OK;
}

static rk_status read_rows(rk_source *s, int64_t max_rows, bool *at_end) {
    rk_lookahead *l = &s->lookahead;
    while (s->columns.n_rows < max_rows) {
        RK_TRY(rk_lookahead_fill(l, 1));
        if (l->n_bytes == 0) {
            *at_end = true;
            return RK_OK;
        }
        const char *end;
        while (!(end = memchr(l->data, '\n', l->n_bytes)) && !l->at_end) RK_TRY(rk_lookahead_fill(l, l->n_bytes * 2));
        size_t n_bytes = end ? (size_t)(end - l->data) : l->n_bytes;
        bool blank = false;
        s->line++;
        rk_status status = take_line(s, s->state, l->data, n_bytes, &blank);
        if (!blank || status != RK_OK) RK_TRY(rk_source_end_row(s, status));
        rk_lookahead_consume(l, n_bytes + (end != NULL));
    }
    return RK_OK;
}

static void close_reader(rk_source *s) {
    libsvm_state *state = s->state;
    rk_libsvm_row_release(&state->row);
    rk_free(state->fields);
    rk_free(state);
}

static const rk_file_reader reader = {read_rows, close_reader};

rk_status rk_libsvm_reader_open(rk_source *s) {
    const rk_data_section *section = s->options.section;
    libsvm_state *state;
    RK_TRY(rk_alloc(1, sizeof *state, &state));
    s->state = state;
    s->reader = &reader;
    size_t n_fields = section ? (size_t)section->n_fields : 0, n = 2 + (n_fields ? n_fields : 1);
    const char **names = NULL;
    rk_column_type *types = NULL;
    int32_t *map = NULL;
    rk_status status;
    RK_GOTO(rk_alloc(n, sizeof *names, &names));
    RK_GOTO(rk_alloc(n, sizeof *types, &types));
    RK_GOTO(rk_alloc(n, sizeof *map, &map));
    RK_GOTO(rk_alloc(n_fields, sizeof *state->fields, &state->fields));
    names[0] = "label";
    types[0] = RK_COLUMN_F32;
    names[1] = "qid";
    names[2] = "ids";
    for (size_t f = 0; f < n_fields; f++) names[2 + f] = section->fields[f].name;
    for (size_t i = 1; i < n; i++) types[i] = RK_COLUMN_I64;
    RK_GOTO(rk_source_map_columns(s, names, types, n, map));
    state->label = map[0];
    state->group = map[1];
    state->ids = n_fields ? -1 : map[2];
    for (size_t f = 0; f < n_fields; f++) state->fields[f] = map[2 + f];
done:
    rk_free(names);
    rk_free(types);
    rk_free(map);
    return status;
}
