/* Separated values: RFC 4180 with any one-byte separator; docs/formats/csv.md. Pure: bytes -> fields. */
#ifndef RK_FORMAT_TEXT_CSV_H
#define RK_FORMAT_TEXT_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/text/text.h"

typedef struct rk_csv_dialect {
    char separator; /* ',' '\t' '|' ';' ... */
    char quote;     /* '"', or 0: quotes are ordinary bytes */
    bool trim;      /* spaces and tabs around unquoted fields are dropped */
} rk_csv_dialect;

/* One record. Fields point into the input, or into `scratch` where a quote had to be undone. */
typedef struct rk_csv_record {
    rk_span *fields; /* [n_fields] */
    size_t n_fields, capacity;
    char *scratch;
    size_t scratch_capacity;
    size_t n_lines; /* line ends passed, for messages */
} rk_csv_record;

/* Parse one record from data[0..n_bytes). *consumed = 0: the record does not end in these bytes (and at_end
 * is false). A blank line has n_fields = 0. RK_BAD_DATA: a quote that never closes, text after a closing
 * quote, a NUL byte. */
rk_status rk_csv_parse(const rk_csv_dialect *dialect, const char *data, size_t n_bytes, bool at_end,
                       rk_csv_record *record, size_t *consumed);
void rk_csv_record_release(rk_csv_record *record);

/* Append one field, quoted if it must be. */
void rk_csv_write_field(const rk_csv_dialect *dialect, rk_span field, bool first, rk_buffer *out);

static inline bool rk_csv_is_blank(char c) {
    return c == ' ' || c == '\t';
}

#endif
