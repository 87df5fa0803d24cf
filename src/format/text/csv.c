#include "format/text/csv.h"

#include <string.h>

#include "base/memory.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { WINDOW_BYTES = 64 };

void rk_csv_record_release(rk_csv_record *record) {
    RK_FREE_ALL(record->fields, record->scratch);
    *record = (rk_csv_record){0};
}

/* A bit for each separator, line end and NUL of 64 bytes. */
static inline uint64_t find_special_bytes(const char *at, char separator) {
    uint64_t mask = 0;
#ifdef __SSE2__
    const __m128i s = _mm_set1_epi8(separator), n = _mm_set1_epi8('\n'), zero = _mm_setzero_si128();
    for (int i = 0; i < WINDOW_BYTES; i += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(at + i));
        __m128i hits = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, s), _mm_cmpeq_epi8(bytes, n)),
                                    _mm_cmpeq_epi8(bytes, zero));
        mask |= (uint64_t)(unsigned)_mm_movemask_epi8(hits) << i;
    }
#else
    for (int i = 0; i < WINDOW_BYTES; i++)
        mask |= (uint64_t)(at[i] == separator || at[i] == '\n' || at[i] == 0) << i;
#endif
    return mask;
}

/* Walks the separators, line ends and NULs of the input, a window at a time. */
typedef struct scanner {
    const char *window, *next, *end; /* mask is of window[..]; from next on nothing was looked at */
    uint64_t mask;                   /* hits that were not given out */
    char separator;
} scanner;

static inline void begin_scan_for_special_bytes(scanner *s, const char *at) {
    s->next = at;
    s->mask = 0;
}

/* The next hit, or the end. */
static inline const char *next_special_byte(scanner *s) {
    while (!s->mask) {
        size_t left = (size_t)(s->end - s->next), n = left < WINDOW_BYTES ? left : WINDOW_BYTES;
        if (n == 0) return s->end;
        if (n == WINDOW_BYTES) {
            s->mask = find_special_bytes(s->next, s->separator);
        } else {
            char rest[WINDOW_BYTES] = {0};
            memcpy(rest, s->next, n);
            s->mask = find_special_bytes(rest, s->separator) & (((uint64_t)1 << n) - 1);
        }
        s->window = s->next;
        s->next += n;
    }
    const char *hit = s->window + __builtin_ctzll(s->mask);
    s->mask &= s->mask - 1;
    return hit;
}

static inline rk_status append_field(rk_csv_record *record, const char *begin, const char *end) {
    if (record->n_fields == record->capacity)
        RK_TRY(rk_reserve_one_more(&record->fields, record->n_fields, &record->capacity,
                                   sizeof *record->fields));
    record->fields[record->n_fields++] = (rk_span){begin, (size_t)(end - begin)};
    return RK_OK;
}

/* Past the blanks around a quoted field. */
static inline const char *skip_blanks_around_quotes(const rk_csv_dialect *dialect, const char *at,
                                                    const char *end) {
    while (dialect->trim && at < end && rk_csv_is_blank(*at) && *at != dialect->separator) at++;
    return at;
}

/* The quote that closes the field whose text begins at `at`, or NULL; *n_doubled: quotes inside it. */
static const char *find_closing_quote(char quote, const char *at, const char *end, size_t *n_doubled) {
    *n_doubled = 0;
    while ((at = memchr(at, quote, (size_t)(end - at)))) {
        if (at + 1 == end || at[1] != quote) return at;
        ++*n_doubled;
        at += 2;
    }
    return NULL;
}

/* The text between quotes, with each doubled quote once, at the end of the record's scratch. */
static rk_status unescape_quotes(char quote, const char *begin, const char *close, const char *input_end,
                                 rk_csv_record *record, size_t *n_scratch) {
    size_t room =
        *n_scratch +
        (size_t)(input_end - begin); /* enough for the rest of the record, whose fields point here */
    if (*n_scratch == 0) RK_TRY(rk_reserve(&record->scratch, &record->scratch_capacity, room, 1));
    char *to = record->scratch + *n_scratch, *field = to;
    for (const char *from = begin; from < close;) {
        const char *hit = memchr(from, quote, (size_t)(close - from));
        size_t n = (size_t)((hit ? hit + 1 : close) - from);
        memcpy(to, from, n);
        to += n;
        from += n + (hit != NULL);
    }
    *n_scratch += (size_t)(to - field);
    return append_field(record, field, to);
}

/* A quoted field whose opening quote is at *at: *at moves past the closing one, or becomes NULL: it does not
 * close in these bytes. */
static rk_status parse_quoted_field(char quote, const char **at, const char *end, rk_csv_record *record,
                                    size_t *n_scratch) {
    const char *begin = *at + 1;
    size_t n_doubled, n_lines = 0;
    const char *close = find_closing_quote(quote, begin, end, &n_doubled);
    *at = close ? close + 1 : NULL;
    if (!close) return RK_OK;
    RK_FAIL_IF(memchr(begin, 0, (size_t)(close - begin)), RK_BAD_DATA, "field %zu holds a NUL byte",
               record->n_fields + 1);
    for (const char *c = begin; c < close; c++) n_lines += *c == '\n';
    record->n_lines += n_lines;
    return n_doubled ? unescape_quotes(quote, begin, close, end, record, n_scratch)
                     : append_field(record, begin, close);
}

/* The field from `begin` to the hit that ends it. */
static inline rk_status parse_unquoted_field(const rk_csv_dialect *dialect, const char *begin,
                                             const char *stop, const char *end, rk_csv_record *record) {
    RK_FAIL_IF(stop < end && *stop == 0, RK_BAD_DATA, "field %zu holds a NUL byte", record->n_fields + 1);
    if (stop > begin && stop[-1] == '\r' && (stop == end || *stop == '\n')) stop--;
    if (dialect->trim) {
        while (begin < stop && rk_csv_is_blank(*begin)) begin++;
        while (begin < stop && rk_csv_is_blank(stop[-1])) stop--;
    }
    return append_field(record, begin, stop);
}

rk_status rk_csv_parse(const rk_csv_dialect *dialect, const char *data, size_t n_bytes, bool at_end,
                       rk_csv_record *record, size_t *consumed) {
    const char *at = data, *end = data + n_bytes;
    scanner scan = {.next = data, .end = end, .separator = dialect->separator};
    size_t n_scratch = 0;
    bool quoted = false;
    record->n_fields = 0;
    record->n_lines = 0;
    *consumed = 0;
    if (n_bytes == 0) return RK_OK;
    for (;; at++) { /* past the separator: another field follows, though it may be empty */
        const char *quote = skip_blanks_around_quotes(dialect, at, end);
        if (dialect->quote && quote < end && *quote == dialect->quote) {
            quoted = true;
            at = quote;
            RK_TRY(parse_quoted_field(dialect->quote, &at, end, record, &n_scratch));
            RK_FAIL_IF(!at && at_end, RK_BAD_DATA, "field %zu: a quote that never closes",
                       record->n_fields + 1);
            if (!at) return RK_OK;
            at = skip_blanks_around_quotes(dialect, at, end);
            if (at < end && *at == '\r' && (at + 1 == end || at[1] == '\n')) at++;
            RK_FAIL_IF(at < end && *at != dialect->separator && *at != '\n', RK_BAD_DATA,
                       "field %zu: text after the closing quote", record->n_fields);
            if (at < end) begin_scan_for_special_bytes(&scan, at + 1);
        } else {
            const char *begin = at;
            at = next_special_byte(&scan);
            RK_TRY(parse_unquoted_field(dialect, begin, at, end, record));
        }
        if (at == end || *at == '\n') break;
    }
    if (at == end && !at_end) return RK_OK;
    record->n_lines += at < end;
    *consumed = (size_t)(at - data) + (at < end);
    if (record->n_fields == 1 && record->fields[0].n_bytes == 0 && !quoted) record->n_fields = 0;
    return RK_OK;
}

void rk_csv_write_field(const rk_csv_dialect *dialect, rk_span field, bool first, rk_buffer *out) {
    if (!first) rk_buffer_append_u8(out, (uint8_t)dialect->separator);
    if (field.n_bytes == 0) return;
    const char *at = field.data, *end = at + field.n_bytes;
    bool quote = rk_csv_is_blank(*at) || rk_csv_is_blank(end[-1]);
    for (const char *c = at; c < end; c++) {
        quote |=
            *c == dialect->separator || *c == '\n' || *c == '\r' || (dialect->quote && *c == dialect->quote);
        if (*c == 0 && out->status == RK_OK)
            out->status =
                rk_error(RK_BAD_DATA, "a value with a NUL byte cannot be written as separated values");
    }
    if (quote && !dialect->quote && out->status == RK_OK)
        out->status = rk_error_hint(
            rk_error(RK_BAD_DATA, "the value '%.*s' needs quotes", rk_span_printed_bytes(field), field.data),
            "set a quote");
    if (!quote) {
        rk_buffer_append(out, at, field.n_bytes);
        return;
    }
    rk_buffer_append_u8(out, (uint8_t)dialect->quote);
    for (const char *hit; at < end; at = hit) {
        hit = memchr(at, dialect->quote, (size_t)(end - at));
        hit = hit ? hit + 1 : end;
        rk_buffer_append(out, at, (size_t)(hit - at));
        if (hit[-1] == dialect->quote) rk_buffer_append_u8(out, (uint8_t)dialect->quote);
    }
    rk_buffer_append_u8(out, (uint8_t)dialect->quote);
}
