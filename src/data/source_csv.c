#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "data/source_parts.h"
#include "format/csv.h"

typedef struct csv_state {
    rk_csv_dialect dialect;
    rk_csv_record record;
    int32_t *map;      /* [n_fields] place in the columns, or -1 */
    size_t n_fields;
    int64_t next_line; /* number of the next record's first line */
    char comment;
} csv_state;

/* The next record; *found = false at the end. */
static rk_status next_record(rk_source *s, csv_state *csv, bool *found) {
    rk_lookahead *l = &s->lookahead;
    *found = false;
    for (;;) {
        RK_TRY(rk_lookahead_fill(l, 1 << 16));
        if (l->n_bytes == 0) return RK_OK;
        s->line = csv->next_line;
        size_t consumed;
        if (csv->comment && l->data[0] == csv->comment) {
            const char *end;
            while (!(end = memchr(l->data, '\n', l->n_bytes)) && !l->at_end) RK_TRY(rk_lookahead_fill(l, l->n_bytes * 2));
            rk_lookahead_consume(l, end ? (size_t)(end + 1 - l->data) : l->n_bytes);
            csv->next_line++;
            continue;
        }
        rk_status status = rk_csv_parse(&csv->dialect, l->data, l->n_bytes, l->at_end, &csv->record, &consumed);
        while (status == RK_OK && consumed == 0 && !l->at_end) {
            RK_TRY(rk_lookahead_fill(l, l->n_bytes * 2));
            status = rk_csv_parse(&csv->dialect, l->data, l->n_bytes, l->at_end, &csv->record, &consumed);
        }
        if (status != RK_OK) { /* pass the damaged line, so that a skip can go on */
            const char *end = memchr(l->data, '\n', l->n_bytes);
            rk_lookahead_consume(l, end ? (size_t)(end + 1 - l->data) : l->n_bytes);
            csv->next_line++;
            *found = true;
            return status;
        }
        rk_lookahead_consume(l, consumed);
        csv->next_line += (int64_t)csv->record.n_lines;
        if (csv->record.n_fields == 0) continue; /* a blank line */
        *found = true;
        return RK_OK;
    }
}

static bool is_missing(const rk_data_section *section, rk_span field) {
    if (field.n_bytes == 0) return true;
    for (int64_t i = 0; section && i < section->n_missing; i++)
        if (rk_span_equal(field, section->missing[i])) return true;
    return false;
}

static rk_status take_record(rk_source *s, const csv_state *csv) {
    RK_FAIL_IF(csv->record.n_fields != csv->n_fields, RK_BAD_DATA, "%zu fields, where %zu columns were expected", csv->record.n_fields, csv->n_fields);
    for (size_t i = 0; i < csv->n_fields; i++)
        if (csv->map[i] >= 0 && !is_missing(s->options.section, csv->record.fields[i]))
            RK_TRY(rk_column_add_text(&s->columns.columns[csv->map[i]], csv->record.fields[i]));
    return RK_OK;
}

static rk_status read_rows(rk_source *s, int64_t max_rows, bool *at_end) {
    csv_state *csv = s->state;
    while (s->columns.n_rows < max_rows) {
        bool found;
        rk_status status = next_record(s, csv, &found);
        if (status == RK_OK && !found) {
            *at_end = true;
            return RK_OK;
        }
        if (status != RK_OK && !found) return status; /* the stream's own failure */
        if (status == RK_OK) status = take_record(s, csv);
        RK_TRY(rk_source_end_row(s, status));
    }
    return RK_OK;
}

static void close_reader(rk_source *s) {
    csv_state *csv = s->state;
    rk_csv_record_release(&csv->record);
    rk_free(csv->map);
    rk_free(csv);
}

static const rk_file_reader reader = {read_rows, close_reader};

/* Names from the header line or the section. */
static rk_status map_names(rk_source *s, csv_state *csv) {
    const rk_data_section *section = s->options.section;
    bool listed = section && section->n_columns > 0, header = section && section->header ? section->header == 1 : !listed;
    char **names = NULL;
    rk_column_type *types = NULL;
    size_t n = 0;
    rk_status status = RK_OK;
    if (header) {
        bool found;
        RK_TRY(next_record(s, csv, &found));
        RK_FAIL_IF(!found, RK_BAD_DATA, "'%s' is empty: it has no header line", rk_source_path(s));
    }
    n = listed ? (size_t)section->n_columns : csv->record.n_fields;
    RK_TRY(rk_alloc(n, sizeof *names, &names));
    for (size_t i = 0; i < n && status == RK_OK; i++)
        status = listed ? rk_strdup(section->columns[i], &names[i]) : rk_strndup(csv->record.fields[i].data, csv->record.fields[i].n_bytes, &names[i]);
    if (status == RK_OK) status = rk_alloc(n, sizeof *types, &types); /* zeroed: all text */
    if (status == RK_OK) status = rk_alloc(n, sizeof *csv->map, &csv->map);
    csv->n_fields = n;
    if (status == RK_OK) status = rk_source_map_columns(s, (const char *const *)names, types, n, csv->map);
    rk_free_strings(names, n);
    rk_free(types);
    return status;
}

rk_status rk_csv_reader_open(rk_source *s, char default_separator) {
    const rk_data_section *section = s->options.section;
    csv_state *csv;
    RK_TRY(rk_alloc(1, sizeof *csv, &csv));
    s->state = csv;
    s->reader = &reader;
    csv->next_line = 1;
    csv->dialect = (rk_csv_dialect){.separator = section && section->separator ? section->separator[0] : default_separator,
                                    .quote = section && section->quote ? section->quote[0] : '"',
                                    .trim = !section || section->trim};
    csv->comment = section && section->comment ? section->comment[0] : 0;
    RK_TRY(rk_lookahead_fill(&s->lookahead, 3));
    if (s->lookahead.n_bytes >= 3 && memcmp(s->lookahead.data, "\xef\xbb\xbf", 3) == 0) rk_lookahead_consume(&s->lookahead, 3); /* UTF-8's mark */
    return map_names(s, csv);
}
