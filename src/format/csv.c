#include "format/csv.h"

#include <string.h>

#include "base/memory.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

void rk_csv_record_release(rk_csv_record *record) {
    rk_free(record->fields);
    rk_free(record->scratch);
    *record = (rk_csv_record){0};
}

/* The first separator, line end, quote or NUL at or after `at`. */
static const char *scan(const char *at, const char *end, char separator) {
#ifdef __SSE2__
    const __m128i s = _mm_set1_epi8(separator), n = _mm_set1_epi8('\n'), zero = _mm_setzero_si128();
    for (; end - at >= 16; at += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
        __m128i hits = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, s), _mm_cmpeq_epi8(bytes, n)), _mm_cmpeq_epi8(bytes, zero));
        int mask = _mm_movemask_epi8(hits);
        if (mask) return at + __builtin_ctz((unsigned)mask);
    }
#endif
    while (at < end && *at != separator && *at != '\n' && *at != 0) at++;
    return at;
}

static rk_status add_field(rk_csv_record *record, const char *begin, const char *end) {
    RK_TRY(rk_grow(&record->fields, record->n_fields, &record->capacity, sizeof *record->fields));
    record->fields[record->n_fields++] = (rk_span){begin, (size_t)(end - begin)};
    return RK_OK;
}

/* A quoted field whose opening quote is at *at: *at moves past the closing one. false in *whole: it does not close in these bytes. */
static rk_status quoted_field(char quote, const char **at, const char *end, rk_csv_record *record, char **scratch, bool *whole) {
    char *begin = *scratch, *to = begin;
    const char *from = *at + 1;
    *whole = false;
    for (;; from++) {
        const char *hit = memchr(from, quote, (size_t)(end - from));
        if (!hit) return RK_OK;
        memcpy(to, from, (size_t)(hit - from));
        for (const char *c = from; c < hit; c++) record->n_lines += *c == '\n';
        if (memchr(from, 0, (size_t)(hit - from))) return rk_error(RK_BAD_DATA, "field %zu holds a NUL byte", record->n_fields + 1);
        to += hit - from;
        from = hit;
        if (from + 1 < end && from[1] == quote) {
            *to++ = quote;
            from++;
            continue;
        }
        break;
    }
    *at = from + 1;
    *whole = true;
    *scratch = to;
    return add_field(record, begin, to);
}

static rk_status bare_field(const rk_csv_dialect *dialect, const char **at, const char *end, rk_csv_record *record) {
    const char *begin = *at, *stop = scan(begin, end, dialect->separator);
    RK_FAIL_IF(stop < end && *stop == 0, RK_BAD_DATA, "field %zu holds a NUL byte", record->n_fields + 1);
    *at = stop;
    const char *last = stop;
    if (last > begin && last[-1] == '\r' && (stop == end || *stop == '\n')) last--;
    rk_span field = {begin, (size_t)(last - begin)};
    if (dialect->trim) field = rk_span_trim(field);
    return add_field(record, field.data, field.data + field.n_bytes);
}

static rk_status reserve_scratch(rk_csv_record *record, size_t n_bytes) {
    if (n_bytes <= record->scratch_capacity) return RK_OK;
    RK_TRY(rk_realloc(n_bytes + n_bytes / 2, 1, &record->scratch));
    record->scratch_capacity = n_bytes + n_bytes / 2;
    return RK_OK;
}

rk_status rk_csv_parse(const rk_csv_dialect *dialect, const char *data, size_t n_bytes, bool at_end, rk_csv_record *record, size_t *consumed) {
    const char *at = data, *end = data + n_bytes;
    char *scratch = NULL;
    record->n_fields = 0;
    record->n_lines = 0;
    *consumed = 0;
    if (n_bytes == 0) return RK_OK;
    for (;;) {
        const char *begin = at;
        while (dialect->trim && at < end && *at == ' ') at++;
        if (dialect->quote && at < end && *at == dialect->quote) {
            if (!scratch) { /* undone quotes are never longer than the input */
                RK_TRY(reserve_scratch(record, n_bytes));
                scratch = record->scratch;
            }
            bool whole;
            RK_TRY(quoted_field(dialect->quote, &at, end, record, &scratch, &whole));
            if (!whole) {
                RK_FAIL_IF(at_end, RK_BAD_DATA, "field %zu: a quote that never closes", record->n_fields + 1);
                return RK_OK;
            }
            while (dialect->trim && at < end && *at == ' ') at++;
            if (at < end && *at == '\r' && (at + 1 == end || at[1] == '\n')) at++;
            RK_FAIL_IF(at < end && *at != dialect->separator && *at != '\n', RK_BAD_DATA, "field %zu: text after the closing quote", record->n_fields);
        } else {
            at = begin;
            RK_TRY(bare_field(dialect, &at, end, record));
        }
        if (at == end) {
            if (!at_end) return RK_OK;
            break;
        }
        if (*at == '\n') {
            at++;
            record->n_lines++;
            break;
        }
        at++; /* the separator: another field follows, though it may be empty */
        if (at == end && !at_end) return RK_OK;
        if (at == end) {
            RK_TRY(add_field(record, at, at));
            break;
        }
    }
    if (record->n_fields == 1 && record->fields[0].n_bytes == 0 && (*data == '\n' || *data == '\r' || *data == ' ' || *data == '\t')) record->n_fields = 0;
    *consumed = (size_t)(at - data);
    return RK_OK;
}

void rk_csv_write_field(const rk_csv_dialect *dialect, rk_span field, bool first, rk_buffer *out) {
    if (!first) rk_buffer_u8(out, (uint8_t)dialect->separator);
    bool quote = field.n_bytes && (field.data[0] == ' ' || field.data[field.n_bytes - 1] == ' ');
    for (size_t i = 0; i < field.n_bytes; i++) {
        char c = field.data[i];
        quote |= c == dialect->separator || c == '\n' || c == '\r' || (dialect->quote && c == dialect->quote);
    }
    if (!quote || !dialect->quote) {
        rk_buffer_append(out, field.data, field.n_bytes);
        return;
    }
    rk_buffer_u8(out, (uint8_t)dialect->quote);
    for (size_t i = 0; i < field.n_bytes; i++) {
        if (field.data[i] == dialect->quote) rk_buffer_u8(out, (uint8_t)dialect->quote);
        rk_buffer_u8(out, (uint8_t)field.data[i]);
    }
    rk_buffer_u8(out, (uint8_t)dialect->quote);
}
