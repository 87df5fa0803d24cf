#include <string.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "data/source/source_internal.h"
#include "format/text/csv_index.h"

typedef struct csv_state {
    rk_csv_dialect dialect;
    rk_csv_record record; /* of the header, and of looking for the end of a piece */
    int32_t *map;         /* [n_fields] place in the columns, or -1 */
    size_t n_fields;
    char comment;
    bool has_missing; /* texts that mean no value */
    const rk_data_section *section;
} csv_state;

/* What stands at the beginning of some bytes. */
typedef enum csv_kind {
    CSV_ROW,
    CSV_NOTHING,
    CSV_CUT
} csv_kind; /* a row; a blank line or comment; they end before it does */

/* One record or line: *consumed is past it. A damaged one is passed to its line end, so that a skip can go
 * on, and said in *status. */
static csv_kind parse_next_record(const csv_state *csv, const char *data, size_t n_bytes, bool at_end,
                                  rk_csv_record *record, size_t *consumed, rk_status *status) {
    const char *end = NULL;
    *status = RK_OK;
    if (csv->comment && data[0] == csv->comment) {
        end = memchr(data, '\n', n_bytes);
        *consumed = end ? (size_t)(end + 1 - data) : n_bytes;
        record->n_lines = 1;
        return end || at_end ? CSV_NOTHING : CSV_CUT;
    }
    *status = rk_csv_parse(&csv->dialect, data, n_bytes, at_end, record, consumed);
    if (*status == RK_OK) return *consumed == 0 ? CSV_CUT : record->n_fields ? CSV_ROW : CSV_NOTHING;
    end = memchr(data, '\n', n_bytes);
    *consumed = end ? (size_t)(end + 1 - data) : n_bytes;
    record->n_lines = 1;
    return end || at_end ? CSV_ROW : CSV_CUT;
}

/* Without quotes the last line end is the end of a record; else each record is looked at. */
static size_t cut_csv_piece(rk_source *s, const char *data, size_t n_bytes) {
    csv_state *csv = s->state;
    if (!csv->dialect.quote || !memchr(data, csv->dialect.quote, n_bytes)) {
        const char *end = memrchr(data, '\n', n_bytes);
        return end ? (size_t)(end + 1 - data) : 0;
    }
    size_t at = 0, consumed;
    rk_status status;
    while (at < n_bytes && parse_next_record(csv, data + at, n_bytes - at, false, &csv->record, &consumed,
                                             &status) != CSV_CUT)
        at += consumed;
    return at;
}

/* data[begin..end) as the value of a column in row `row`; an empty text is none. There is room. */
static inline void append_value(rk_column *column, size_t begin, size_t end, int64_t row) {
    int64_t n = column->n_values;
    column->places[n] = (rk_text_place){(uint32_t)begin, (uint32_t)(end - begin)};
    column->n_values = n += begin < end;
    column->offsets[row + 1] = n;
}

/* The field data[begin..end) as the value of its column in the next row. */
static inline void append_field(const csv_state *csv, rk_chunk *chunk, size_t field, size_t begin,
                                size_t end) {
    if (csv->map[field] < 0) return;
    if (csv->has_missing && rk_span_is_one_of((rk_span){chunk->data + begin, end - begin},
                                              csv->section->missing, csv->section->n_missing))
        end = begin;
    append_value(&chunk->columns.columns[csv->map[field]], begin, end, chunk->columns.n_rows);
}

/* A row of plain fields that ends at the n_fields-th place: most are. False: it is something else, and
 * nothing was kept. */
static bool append_plain_row(const csv_state *csv, rk_chunk *chunk, size_t begin, const uint32_t *places) {
    const char *data = chunk->data;
    const size_t n = csv->n_fields;
    const char separator = csv->dialect.separator;
    if (n == 1 || data[places[n - 1]] != '\n' || (csv->comment && data[begin] == csv->comment)) return false;
    bool other = false;
    for (size_t i = 0; i < n; i++) {
        size_t at = begin, end = places[i];
        begin = end + 1;
        other |= i + 1 < n && data[end] != separator;
        if (i + 1 == n && end > at && data[end - 1] == '\r') end--;
        if (csv->dialect.trim && (data[at] <= ' ' || data[end - 1 + (at == end)] <= ' ')) {
            while (at < end && rk_csv_is_blank(data[at])) at++;
            while (at < end && rk_csv_is_blank(data[end - 1])) end--;
        }
        append_field(csv, chunk, i, at, end);
    }
    if (other) {
        rk_columns_drop_unended_row(&chunk->columns);
        return false;
    }
    chunk->lines[chunk->columns.n_rows++] = chunk->n_lines;
    return true;
}

/* A parsed record whose fields may stand in its own memory: they are put one after the other over the
 * record's bytes, from data[begin] on. */
static rk_status append_record(const csv_state *csv, rk_chunk *chunk, size_t begin) {
    const rk_csv_record *record = &chunk->record;
    RK_FAIL_IF(record->n_fields != csv->n_fields, RK_BAD_DATA, "%zu fields, where %zu columns were expected",
               record->n_fields, csv->n_fields);
    for (size_t i = 0; i < csv->n_fields; i++) {
        rk_span field = record->fields[i];
        if (field.n_bytes) memmove(chunk->data + begin, field.data, field.n_bytes);
        append_field(csv, chunk, i, begin, begin + field.n_bytes);
        begin += field.n_bytes;
    }
    return RK_OK;
}

static bool file_has_column(const csv_state *csv, int32_t column) {
    for (size_t i = 0; i < csv->n_fields; i++)
        if (csv->map[i] == column) return true;
    return false;
}

/* Each row that is kept has n_fields places at least, but for a last one without a line end. Columns that the
 * file has not got stay without values. */
static rk_status reserve_rows(const csv_state *csv, rk_chunk *chunk, size_t n_places) {
    int64_t n_rows = (int64_t)(n_places / csv->n_fields) + 2;
    for (int32_t c = 0; c < chunk->columns.n_columns; c++) {
        rk_column *column = &chunk->columns.columns[c];
        RK_TRY(rk_column_reserve(column, n_rows, n_rows, 0));
        if (!file_has_column(csv, c))
            memset(column->offsets, 0, (size_t)(n_rows + 1) * sizeof *column->offsets);
        column->text = chunk->data;
    }
    return rk_chunk_reserve(chunk, n_rows);
}

/* What does not look plain: quotes, blank lines, comments, a wrong number of fields. */
static rk_status append_irregular_record(const rk_source *s, const csv_state *csv, rk_chunk *chunk, size_t at,
                                         size_t *consumed) {
    rk_status status;
    csv_kind kind = parse_next_record(csv, chunk->data + at, chunk->n_bytes - at, true, &chunk->record,
                                      consumed, &status);
    if (kind == CSV_ROW && status == RK_OK) status = append_record(csv, chunk, at);
    if (kind == CSV_ROW) RK_TRY(rk_chunk_end_row(s, chunk, status));
    chunk->n_lines += (int64_t)chunk->record.n_lines;
    return RK_OK;
}

static rk_status parse_csv(const rk_source *s, rk_chunk *chunk) {
    const csv_state *csv = s->state;
    size_t room = chunk->n_bytes + RK_CSV_INDEX_ROOM, place = 0;
    RK_TRY(rk_reserve(&chunk->places, &chunk->places_capacity, room, sizeof *chunk->places));
    size_t n_places = rk_csv_find_separators(chunk->data, chunk->n_bytes, csv->dialect.separator,
                                             csv->dialect.quote, chunk->places);
    RK_TRY(reserve_rows(csv, chunk, n_places));
    for (size_t at = 0, consumed; at < chunk->n_bytes; at += consumed) {
        if (place + csv->n_fields <= n_places && append_plain_row(csv, chunk, at, chunk->places + place)) {
            place += csv->n_fields;
            consumed = chunk->places[place - 1] + 1 - at;
            chunk->n_lines++;
            continue;
        }
        RK_TRY(append_irregular_record(s, csv, chunk, at, &consumed));
        while (place < n_places && chunk->places[place] < at + consumed) place++;
    }
    return RK_OK;
}

static void close_csv(rk_source *s) {
    csv_state *csv = s->state;
    rk_csv_record_release(&csv->record);
    RK_FREE_ALL(csv->map, csv);
}

static const rk_file_reader reader = {
    .cut = cut_csv_piece, .lines = rk_count_lines, .parse = parse_csv, .close = close_csv};

/* The first line that is none of comments and blanks, into csv->record: it has *n_bytes. Without fields there
 * is none, or, of a file without a header, it is damaged, which the parser will say. */
static rk_status find_first_line(rk_source *s, csv_state *csv, bool is_header, size_t *n_bytes) {
    rk_byte_lookahead *l = &s->lookahead;
    for (;;) {
        rk_status status;
        RK_TRY(rk_byte_lookahead_fill(l, RK_PIECE_BYTES));
        csv->record.n_fields = 0;
        RK_FAIL_IF(l->n_bytes == 0 && is_header, RK_BAD_DATA, "'%s' is empty: it has no header line",
                   rk_source_path(s));
        if (l->n_bytes == 0) return RK_OK;
        csv_kind kind =
            parse_next_record(csv, l->data, l->n_bytes, l->at_end, &csv->record, n_bytes, &status);
        if (status != RK_OK && is_header)
            return rk_error_context(status, "'%s': the header line", rk_source_path(s));
        if (status != RK_OK) csv->record.n_fields = 0;
        if (kind == CSV_ROW) return RK_OK;
        if (kind == CSV_CUT) {
            RK_TRY(rk_source_extend_lookahead(s));
            continue;
        }
        rk_byte_lookahead_consume(l, *n_bytes);
        s->next_line += (int64_t)csv->record.n_lines;
    }
}

static rk_status read_first_line(rk_source *s, csv_state *csv, bool header) {
    size_t n_bytes;
    RK_TRY(find_first_line(s, csv, header, &n_bytes));
    RK_TRY(rk_csv_check_first_line(rk_source_path(s), csv->section, &csv->record, header));
    if (!header) return RK_OK;
    rk_byte_lookahead_consume(&s->lookahead, n_bytes);
    s->next_line += (int64_t)csv->record.n_lines;
    return RK_OK;
}

/* Names from the header line or the section. */
static rk_status map_column_names(rk_source *s, csv_state *csv) {
    const rk_data_section *section = csv->section;
    bool listed = section && section->n_columns > 0,
         header = section && section->header ? section->header == 1 : !listed;
    RK_AUTO(rk_text_list_release) rk_text_list names = {0};
    RK_AUTOFREE rk_file_column *columns = NULL;
    if (!listed && !header)
        return rk_error_hint(
            rk_error(RK_CONFIG, "'%s' has no header line (header: false), and no columns are listed",
                     rk_source_path(s)),
            "name them: columns: [...]");
    RK_TRY(read_first_line(s, csv, header));
    size_t n = listed ? (size_t)section->n_columns : csv->record.n_fields;
    csv->n_fields = n;
    RK_TRY(rk_alloc(n, sizeof *csv->map, &csv->map));
    RK_TRY(rk_alloc(n, sizeof *columns, &columns)); /* zeroed: all text */
    for (size_t i = 0; i < n; i++) {
        const rk_span field =
            listed ? (rk_span){section->columns[i], strlen(section->columns[i])} : csv->record.fields[i];
        RK_TRY(rk_text_list_add_span(&names, field));
        columns[i].name = names.texts[i];
    }
    RK_TRY(rk_source_map_columns(s, columns, n));
    for (size_t i = 0; i < n; i++) csv->map[i] = columns[i].place;
    return RK_OK;
}

rk_status rk_csv_reader_open(rk_source *s, char default_separator) {
    const rk_data_section *section = s->options.section;
    csv_state *csv;
    RK_TRY(rk_alloc(1, sizeof *csv, &csv));
    s->state = csv;
    s->reader = &reader;
    csv->section = section;
    csv->has_missing = section && section->n_missing > 0;
    csv->dialect = (rk_csv_dialect){
        .separator = section && section->separator ? section->separator[0] : default_separator,
        .quote = section && section->quote ? section->quote[0] : '"',
        .trim = !section || section->trim};
    csv->comment = section && section->comment ? section->comment[0] : 0;
    RK_TRY(rk_byte_lookahead_fill(&s->lookahead, 3));
    if (s->lookahead.n_bytes >= 2 &&
        (memcmp(s->lookahead.data, "\xff\xfe", 2) == 0 || memcmp(s->lookahead.data, "\xfe\xff", 2) == 0))
        return rk_error_hint(rk_error(RK_BAD_DATA, "'%s' is UTF-16", rk_source_path(s)),
                             "'iconv -f UTF-16 -t UTF-8' makes it UTF-8");
    if (s->lookahead.n_bytes >= 3 && memcmp(s->lookahead.data, "\xef\xbb\xbf", 3) == 0)
        rk_byte_lookahead_consume(&s->lookahead, 3); /* UTF-8's mark */
    return map_column_names(s, csv);
}
