#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/source/source_internal.h"
#include "format/protobuf/example_feature_header.h"
#include "format/protobuf/protobuf_wire.h"

typedef struct known_feature {
    size_t name_bytes;
    rk_example_feature_header head;
} known_feature;

/* The columns of a TFRecord file are those of its first record (or the wanted ones); a feature's kind is its
 * column's type. */
typedef struct tfrecord_state {
    rk_file_column *columns; /* of the first record: [n] */
    known_feature *known;    /* [n] */
    size_t n, columns_capacity, known_capacity;
} tfrecord_state;

static rk_column_type column_type_of_kind(rk_example_kind kind) {
    return kind == RK_EXAMPLE_BYTES   ? RK_COLUMN_TEXT
           : kind == RK_EXAMPLE_FLOAT ? RK_COLUMN_F32
                                      : RK_COLUMN_I64;
}

static rk_status add_column_of_feature(void *context, rk_span name, rk_example_kind kind, rk_span list) {
    tfrecord_state *state = context;
    (void)list;
    char *own_name;
    RK_TRY(rk_reserve_one_more(&state->columns, state->n, &state->columns_capacity, sizeof *state->columns));
    RK_TRY(rk_reserve_one_more(&state->known, state->n, &state->known_capacity, sizeof *state->known));
    RK_TRY(rk_strndup(name.data, name.n_bytes, &own_name));
    state->known[state->n] =
        (known_feature){name.n_bytes, rk_example_feature_header_make(own_name, name.n_bytes, kind)};
    state->columns[state->n++] = (rk_file_column){own_name, column_type_of_kind(kind), 0};
    return RK_OK;
}

enum { KNOWN_VALUES = 128 }; /* more than there can be in a feature that is known */

/* So that whatever a known feature reads, matching or not, is in the piece: a head, a length of one byte, a
 * number. */
enum { KNOWN_ROOM = RK_EXAMPLE_HEAD_BYTES + KNOWN_VALUES + RK_WIRE_BEYOND };

typedef struct example_reader {
    const tfrecord_state *state;
    rk_chunk *chunk;
    size_t feature; /* of the record: the n-th is nearly always the n-th of the first record */
} example_reader;

/* memcmp of names, most of which are short, without the call. */
static inline bool same_bytes(const char *a, const char *b, size_t n) {
    return n - 1 < 8 ? rk_text_load_word(a, n) == rk_text_load_word(b, n) : memcmp(a, b, n) == 0;
}

/* The column of a feature, or -1. */
static int32_t find_column_of_feature(example_reader *k, rk_span name) {
    const tfrecord_state *state = k->state;
    for (size_t tried = 0, i = k->feature; tried < state->n; tried++, i++) {
        if (i >= state->n) i = 0;
        if (state->known[i].name_bytes != name.n_bytes ||
            !same_bytes(state->columns[i].name, name.data, name.n_bytes))
            continue;
        k->feature = i + 1;
        return state->columns[i].place;
    }
    for (int32_t c = 0; c < k->chunk->columns.n_columns; c++)
        if (rk_span_equal(name, k->chunk->columns.columns[c].name)) return c;
    return -1;
}

/* Texts stay where they are in the piece; an empty one is no value. */
static rk_status append_texts(rk_chunk *chunk, rk_span list, rk_column *column) {
    size_t most = rk_example_max_values(RK_EXAMPLE_BYTES, list), n;
    if (most >= chunk->spans_capacity) { /* room for one more than there may be, so that there is memory even
                                            for none */
        RK_TRY(rk_realloc(most + most / 2 + 1, sizeof *chunk->spans, &chunk->spans));
        chunk->spans_capacity = most + most / 2 + 1;
    }
    RK_TRY(rk_example_read_bytes(list, chunk->spans, &n));
    RK_TRY(rk_column_reserve(column, 0, column->n_values + (int64_t)n, 0));
    column->text = chunk->data;
    for (size_t i = 0; i < n; i++) {
        if (chunk->spans[i].n_bytes == 0) continue;
        column->places[column->n_values++] = (rk_text_place){(uint32_t)(chunk->spans[i].data - chunk->data),
                                                             (uint32_t)chunk->spans[i].n_bytes};
    }
    return RK_OK;
}

static rk_status append_values_of_feature(void *context, rk_span name, rk_example_kind kind, rk_span list) {
    example_reader *k = context;
    int32_t place = find_column_of_feature(k, name);
    if (place < 0) return RK_OK;
    rk_column *column = &k->chunk->columns.columns[place];
    RK_FAIL_IF(column->type != column_type_of_kind(kind), RK_BAD_DATA,
               "feature '%s' has type %s here, but %s in the first record", column->name,
               rk_column_type_name(column_type_of_kind(kind)), rk_column_type_name(column->type));
    if (kind == RK_EXAMPLE_BYTES) return append_texts(k->chunk, list, column);
    int64_t most = column->n_values + (int64_t)rk_example_max_values(kind, list);
    if (most >= column->values_capacity) RK_TRY(rk_column_reserve(column, 0, most + 1, 0));
    size_t n;
    if (kind == RK_EXAMPLE_FLOAT)
        RK_TRY(rk_example_read_f32(list, column->f32 + column->n_values, &n));
    else
        RK_TRY(rk_example_read_i64(list, column->i64 + column->n_values, &n));
    column->n_values += (int64_t)n;
    return RK_OK;
}

/* The values of a feature that looks as in the first record. false: they need a closer look; nothing is
 * taken. */
static inline bool append_values_of_known_layout(rk_chunk *chunk, rk_column *column, const uint8_t *values,
                                                 size_t n_bytes) {
    int64_t at = column->n_values;
    size_t n = 1;
    if (column->values_capacity - at < KNOWN_VALUES &&
        rk_column_reserve(column, 0, at + KNOWN_VALUES, 0) != RK_OK)
        return false;
    if (column->type == RK_COLUMN_I64) {
        n = rk_wire_read_short_varints(values, n_bytes, column->i64 + at);
    } else if (column->type == RK_COLUMN_F32) {
        n = n_bytes / sizeof *column->f32;
        if (n_bytes % sizeof *column->f32) return false;
        if (n == 1)
            memcpy(column->f32 + at, values, sizeof *column->f32);
        else
            memcpy(column->f32 + at, values, n_bytes);
    } else {
        column->text = chunk->data;
        column->places[at] =
            (rk_text_place){(uint32_t)((const char *)values - chunk->data), (uint32_t)n_bytes};
    }
    column->n_values = at + (int64_t)n;
    return n > 0;
}

/* The features that follow one another as they do in the first record. */
static size_t append_features_in_known_order(void *context, rk_span features) {
    example_reader *k = context;
    rk_chunk *chunk = k->chunk;
    rk_column *columns = chunk->columns.columns;
    const tfrecord_state *state = k->state;
    size_t feature = k->feature;
    const uint8_t *begin = (const uint8_t *)features.data, *at = begin, *end = at + features.n_bytes,
                  *last = (const uint8_t *)chunk->data + chunk->n_bytes - KNOWN_ROOM;
    for (; feature < state->n && at < end && at <= last; feature++) {
        const rk_example_feature_header *head = &state->known[feature].head;
        const int32_t place = state->columns[feature].place;
        size_t n_values, n_head = head->n_bytes;
        if (!rk_example_feature_header_matches(head, at, &n_values) || n_values == 0 ||
            n_head + n_values > (size_t)(end - at))
            break;
        if (place >= 0 && !append_values_of_known_layout(chunk, &columns[place], at + n_head, n_values))
            break;
        at += n_head + n_values;
    }
    k->feature = feature;
    return (size_t)(at - begin);
}

static size_t cut_tfrecord_piece(rk_source *s, const char *data, size_t n_bytes) {
    size_t at = 0, length, left = RK_MAX_PIECE_CELLS / ((size_t)s->columns.n_columns + 1) + 1;
    while (at < n_bytes && left-- > 0 && (length = rk_tfrecord_frame_bytes(data + at, n_bytes - at)) != 0 &&
           length <= n_bytes - at)
        at += length;
    bool damaged = n_bytes - at >= 12 && rk_tfrecord_frame_bytes(data + at, n_bytes - at) == 0;
    return damaged ? n_bytes : at; /* what is damaged is said by the parser */
}

static int64_t count_records(const char *data, size_t n_bytes) {
    int64_t n = 0;
    for (size_t at = 0, length; at < n_bytes; at += length, n++) {
        length = rk_tfrecord_frame_bytes(data + at, n_bytes - at);
        if (length == 0 || length > n_bytes - at) return -1;
    }
    return n;
}

static rk_status parse_tfrecord(const rk_source *s, rk_chunk *chunk) {
    example_reader k = {.state = s->state, .chunk = chunk};
    rk_example_visitor visitor = {&k, append_values_of_feature};
    rk_example_known known = chunk->n_bytes >= KNOWN_ROOM ? append_features_in_known_order : NULL;
    for (size_t at = 0, consumed; at < chunk->n_bytes; at += consumed, chunk->n_lines++) {
        rk_span payload;
        rk_status status =
            rk_tfrecord_parse(chunk->data + at, chunk->n_bytes - at, true, &payload, &consumed);
        if (status != RK_OK) {
            chunk->error_at = RK_AT_RECORD;
            chunk->error_byte = at;
            return status;
        }
        k.feature = 0;
        RK_TRY(rk_chunk_end_row(s, chunk,
                                rk_example_parse_known(payload.data, payload.n_bytes, &visitor, known)));
    }
    return RK_OK;
}

static void close_tfrecord(rk_source *s) {
    tfrecord_state *state = s->state;
    for (size_t i = 0; i < state->n; i++) rk_free((char *)(size_t)state->columns[i].name);
    RK_FREE_ALL(state->columns, state->known, state);
}

static const rk_file_reader reader = {
    .cut = cut_tfrecord_piece, .lines = count_records, .parse = parse_tfrecord, .close = close_tfrecord};

/* The first frame's payload, which stays to be read again. */
static rk_status peek_first_record(rk_source *s, rk_span *payload) {
    rk_byte_lookahead *l = &s->lookahead;
    size_t consumed = 0;
    RK_TRY(rk_byte_lookahead_fill(l, RK_PIECE_BYTES));
    RK_FAIL_IF(l->n_bytes == 0, RK_BAD_DATA, "'%s' is empty: it has no records", rk_source_path(s));
    for (;;) {
        rk_status status = rk_tfrecord_parse(l->data, l->n_bytes, l->at_end, payload, &consumed);
        if (status != RK_OK) return rk_error_context(status, "'%s': record 1, byte 0", rk_source_path(s));
        if (consumed) return RK_OK;
        RK_TRY(rk_source_extend_lookahead(s));
    }
}

rk_status rk_tfrecord_reader_open(rk_source *s) {
    tfrecord_state *state;
    RK_TRY(rk_alloc(1, sizeof *state, &state));
    s->state = state;
    s->reader = &reader;
    rk_span payload;
    RK_TRY(peek_first_record(s, &payload));
    rk_example_visitor visitor = {state, add_column_of_feature};
    rk_status status = rk_example_parse(payload.data, payload.n_bytes, &visitor);
    if (status != RK_OK) return rk_error_context(status, "'%s': record 1", rk_source_path(s));
    return rk_source_map_columns(s, state->columns, state->n);
}
