#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/source_parts.h"
#include "format/tfrecord.h"

/* The columns of a TFRecord file are those of its first record (or the wanted ones); a feature's kind is its column's type. */
typedef struct tfrecord_state {
    rk_source *source;
    rk_column *column; /* of the feature being walked, or NULL */
    char **names;      /* of the first record: [n_names] */
    rk_column_type *types;
    size_t n_names, capacity, types_capacity;
} tfrecord_state;

static rk_column_type type_of(rk_example_kind kind) {
    return kind == RK_EXAMPLE_BYTES ? RK_COLUMN_TEXT : kind == RK_EXAMPLE_FLOAT ? RK_COLUMN_F32 : RK_COLUMN_I64;
}

static rk_status list_feature(void *context, rk_span name, rk_example_kind kind) {
    tfrecord_state *state = context;
    RK_TRY(rk_grow(&state->names, state->n_names, &state->capacity, sizeof *state->names));
    RK_TRY(rk_grow(&state->types, state->n_names, &state->types_capacity, sizeof *state->types));
    RK_TRY(rk_strndup(name.data, name.n_bytes, &state->names[state->n_names]));
    state->types[state->n_names++] = type_of(kind);
    return RK_OK;
}

static rk_status ignore_value(void *context, rk_example_kind kind, const rk_example_value *value) {
    (void)context;
    (void)kind;
    (void)value;
    return RK_OK;
}

static rk_status take_feature(void *context, rk_span name, rk_example_kind kind) {
    tfrecord_state *state = context;
    rk_columns *columns = &state->source->columns;
    state->column = NULL;
    for (int32_t c = 0; c < columns->n_columns; c++)
        if (rk_span_equal(name, columns->columns[c].name)) state->column = &columns->columns[c];
    RK_FAIL_IF(state->column && state->column->type != type_of(kind), RK_BAD_DATA, "feature '%s' is %s here and %s in the first record", state->column->name,
               rk_column_type_name(type_of(kind)), rk_column_type_name(state->column->type));
    return RK_OK;
}

static rk_status take_value(void *context, rk_example_kind kind, const rk_example_value *value) {
    rk_column *column = ((tfrecord_state *)context)->column;
    if (!column) return RK_OK;
    if (kind == RK_EXAMPLE_BYTES) return value->bytes.n_bytes ? rk_column_add_text(column, value->bytes) : RK_OK;
    return kind == RK_EXAMPLE_FLOAT ? rk_column_add_f32(column, value->number) : rk_column_add_i64(column, value->integer);
}

/* The next frame's payload; consumed by the caller. */
static rk_status next_frame(rk_source *s, rk_span *payload, size_t *consumed) {
    rk_lookahead *l = &s->lookahead;
    *consumed = 0;
    for (size_t need = 1 << 16;; need *= 2) {
        RK_TRY(rk_lookahead_fill(l, need));
        if (l->n_bytes == 0) return RK_OK;
        rk_status status = rk_tfrecord_parse(l->data, l->n_bytes, l->at_end, payload, consumed);
        if (status != RK_OK) return rk_error_context(status, "'%s': record %lld, byte %llu", rk_source_path(s), (long long)s->line + 1, (unsigned long long)l->position);
        if (*consumed) return RK_OK;
    }
}

static rk_status read_rows(rk_source *s, int64_t max_rows, bool *at_end) {
    tfrecord_state *state = s->state;
    rk_example_visitor visitor = {state, take_feature, take_value};
    while (s->columns.n_rows < max_rows) {
        rk_span payload;
        size_t consumed;
        RK_TRY(next_frame(s, &payload, &consumed));
        if (consumed == 0) {
            *at_end = true;
            return RK_OK;
        }
        s->line++;
        RK_TRY(rk_source_end_row(s, rk_example_parse(payload.data, payload.n_bytes, &visitor)));
        rk_lookahead_consume(&s->lookahead, consumed);
    }
    return RK_OK;
}

static void close_reader(rk_source *s) {
    tfrecord_state *state = s->state;
    for (size_t i = 0; i < state->n_names; i++) rk_free(state->names[i]);
    rk_free(state->names);
    rk_free(state->types);
    rk_free(state);
}

static const rk_file_reader reader = {read_rows, close_reader};

rk_status rk_tfrecord_reader_open(rk_source *s) {
    tfrecord_state *state;
    RK_TRY(rk_alloc(1, sizeof *state, &state));
    state->source = s;
    s->state = state;
    s->reader = &reader;
    rk_span payload;
    size_t consumed;
    RK_TRY(next_frame(s, &payload, &consumed));
    RK_FAIL_IF(consumed == 0, RK_BAD_DATA, "'%s' is empty: it has no records", rk_source_path(s));
    rk_example_visitor visitor = {state, list_feature, ignore_value};
    rk_status status = rk_example_parse(payload.data, payload.n_bytes, &visitor);
    if (status != RK_OK) return rk_error_context(status, "'%s': record 1", rk_source_path(s));
    int32_t *map;
    RK_TRY(rk_alloc(state->n_names, sizeof *map, &map));
    status = rk_source_map_columns(s, (const char *const *)state->names, state->types, state->n_names, map);
    rk_free(map);
    return status;
}
