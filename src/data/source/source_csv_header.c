/* Whether the first line of separated values is what the run file takes it for, a header or a row, told by
 * the names that it lists, or by numbers. */
#include "base/log.h"
#include "base/text/text.h"
#include "data/source/source_internal.h"

static bool is_number_field(rk_span field) {
    double x;
    return rk_parse_f64(field, &x);
}

/* 0, 1, 2: what stands above columns without names. */
static bool are_fields_column_numbers(const rk_csv_record *record) {
    int64_t first, number;
    for (size_t i = 0; i < record->n_fields; i++)
        if (!rk_parse_i64(record->fields[i], &number) ||
            (i ? number != first + (int64_t)i : (first = number) > 1 || first < 0))
            return false;
    return true;
}

/* A field that is no name, or NULL. */
static const rk_span *find_number_field(const rk_csv_record *record) {
    if (are_fields_column_numbers(record)) return NULL;
    for (size_t i = 0; i < record->n_fields; i++)
        if (is_number_field(record->fields[i])) return &record->fields[i];
    return NULL;
}

/* The number of the listed column of that name, or -1. */
static int64_t find_listed_column(const rk_data_section *section, rk_span name) {
    for (int64_t i = 0; i < section->n_columns; i++)
        if (rk_span_equal(name, section->columns[i])) return i;
    return -1;
}

static rk_status wrong_column_order_error(const char *path, const rk_data_section *section,
                                          const rk_csv_record *record, size_t i) {
    rk_span field = record->fields[i];
    return rk_error_hint(
        rk_error(RK_CONFIG, "'%s': the header line calls column %zu '%.*s', which data.columns calls '%s'",
                 path, i + 1, rk_span_printed_bytes(field), field.data, section->columns[i]),
        "without data.columns the names are the header line's");
}

/* A first line that is taken for a header though columns are listed: it must look like one, or a row would be
 * lost. */
static rk_status check_replaced_header(const char *path, const rk_data_section *section,
                                       const rk_csv_record *record) {
    size_t n = record->n_fields, n_alike = 0;
    RK_FAIL_IF(n != (size_t)section->n_columns, RK_CONFIG,
               "'%s': the header line has %zu fields, and data.columns %lld names", path, n,
               (long long)section->n_columns);
    for (size_t i = 0; i < n; i++) {
        int64_t place = find_listed_column(section, record->fields[i]);
        if (place >= 0 && !rk_span_equal(record->fields[place], section->columns[place]))
            return wrong_column_order_error(path, section, record, i);
        n_alike += place >= 0;
    }
    const rk_span *number = find_number_field(record);
    if (n_alike || are_fields_column_numbers(record)) return RK_OK;
    if (number)
        return rk_error_hint(
            rk_error(RK_CONFIG,
                     "'%s': the first line is no header: it has the number '%.*s', and none of the names of "
                     "data.columns",
                     path, rk_span_printed_bytes(*number), number->data),
            "header: false, or header beside the split's path, says that the first line is a row");
    rk_log(RK_LOG_WARNING,
           "'%s': the first line is taken for a header (header: true), though none of its fields is a name "
           "of data.columns; the first is '%.*s'",
           path, rk_span_printed_bytes(record->fields[0]), record->fields[0].data);
    return RK_OK;
}

/* A first line that is taken for a row, though it has the names that are listed. */
static rk_status check_first_row(const char *path, const rk_data_section *section,
                                 const rk_csv_record *record) {
    size_t n = record->n_fields, n_alike = 0;
    for (size_t i = 0; i < n && i < (size_t)section->n_columns; i++)
        n_alike += rk_span_equal(record->fields[i], section->columns[i]);
    if (n_alike == 0 || 2 * n_alike < n || (n_alike == 1 && n > 1)) return RK_OK;
    return rk_error_hint(
        rk_error(RK_CONFIG, "'%s': the first line is a header: %zu of its fields are names of data.columns",
                 path, n_alike),
        "header: true, or header beside the split's path, takes it for one");
}

/* Names that a file gives itself. */
static void warn_of_number_in_header(const char *path, const rk_csv_record *record) {
    const rk_span *number = find_number_field(record);
    if (number)
        rk_log(RK_LOG_WARNING,
               "'%s': the first line is taken for a header, though it has the number '%.*s'\nhint: if it is "
               "a row, data.columns names the columns",
               path, rk_span_printed_bytes(*number), number->data);
}

rk_status rk_csv_check_first_line(const char *path, const rk_data_section *section,
                                  const rk_csv_record *record, bool is_header) {
    bool listed = section && section->n_columns > 0;
    if (!listed) warn_of_number_in_header(path, record);
    if (!listed) return RK_OK;
    return is_header ? check_replaced_header(path, section, record) : check_first_row(path, section, record);
}
