#include "server/request/json_reader.h"

#include <stdint.h>
#include <string.h>

void rk_json_begin_document(rk_json *json, rk_span text, int max_depth) {
    rk_buffer texts = json->texts;
    rk_buffer_clear(&texts);
    *json = (rk_json){.begin = text.data,
                      .at = text.data,
                      .end = text.data + text.n_bytes,
                      .max_depth = max_depth,
                      .texts = texts};
}

void rk_json_begin_part(rk_json *json, rk_span text, rk_span part, int max_depth) {
    rk_json_begin_document(json, part, max_depth);
    json->begin = text.data;
}

void rk_json_release(rk_json *json) {
    rk_buffer_release(&json->texts);
}

rk_status rk_json_error(const rk_json *json, const char *what) {
    return rk_error(RK_BAD_DATA, "JSON: byte %lld: %s", (long long)(json->at - json->begin), what);
}

static char skip_spaces(rk_json *json) {
    while (json->at < json->end &&
           (*json->at == ' ' || *json->at == '\n' || *json->at == '\t' || *json->at == '\r'))
        json->at++;
    return json->at < json->end ? *json->at : 0;
}

rk_status rk_json_peek_kind(rk_json *json, rk_json_kind *kind) {
    char next = skip_spaces(json);
    *kind = next == 'n'   ? RK_JSON_NULL
            : next == 'f' ? RK_JSON_FALSE
            : next == 't' ? RK_JSON_TRUE
            : next == '"' ? RK_JSON_TEXT
            : next == '[' ? RK_JSON_ARRAY
            : next == '{' ? RK_JSON_OBJECT
                          : RK_JSON_NUMBER;
    if (*kind == RK_JSON_NUMBER && next != '-' && (next < '0' || next > '9'))
        return rk_json_error(json, json->at == json->end ? "the text ends where a value should stand"
                                                         : "a value should stand here");
    return RK_OK;
}

static rk_status open_array_or_object(rk_json *json, char mark, const char *what) {
    if (skip_spaces(json) != mark) return rk_json_error(json, what);
    if (json->depth == json->max_depth)
        return rk_json_error(json, "arrays and objects stand too deep in one another");
    json->at++;
    json->depth++;
    json->first = true;
    return RK_OK;
}

/* The comma before a value; false: what is open has ended, or neither stands here. */
static bool read_comma_or_end(rk_json *json, char mark) {
    char c = skip_spaces(json);
    bool ends = c == mark, needs_comma = !ends && !json->first;
    json->status = needs_comma && c != ',' ? rk_json_error(json, "a comma should stand here") : RK_OK;
    if (json->status != RK_OK) return false;
    json->at += ends || needs_comma;
    json->depth -= ends;
    json->first = false; /* what is around an end has it as a value */
    return !ends;
}

rk_status rk_json_open_object(rk_json *json) {
    return open_array_or_object(json, '{', "an object should stand here");
}

rk_status rk_json_open_array(rk_json *json) {
    return open_array_or_object(json, '[', "an array should stand here");
}

bool rk_json_next_item(rk_json *json) {
    return read_comma_or_end(json, ']');
}

static rk_status read_key(rk_json *json, rk_span *key) {
    RK_TRY(rk_json_read_text(json, key));
    if (skip_spaces(json) != ':') return rk_json_error(json, "a colon should stand after the key");
    json->at++;
    return RK_OK;
}

bool rk_json_next_key(rk_json *json, rk_span *key) {
    if (!read_comma_or_end(json, '}')) return false;
    json->status = read_key(json, key);
    return json->status == RK_OK;
}

static rk_status read_literal(rk_json *json, const char *text) {
    size_t n = strlen(text);
    if ((size_t)(json->end - json->at) < n || memcmp(json->at, text, n) != 0)
        return rk_json_error(json, "a value should stand here");
    json->at += n;
    return RK_OK;
}

static bool skip_character(rk_json *json, char c) {
    bool is = json->at < json->end && *json->at == c;
    json->at += is;
    return is;
}

static inline const char *skip_digits(const char *at, const char *end) {
    while (at < end && (unsigned char)(*at - '0') < 10) at++;
    return at;
}

/* Where a number ends that begins at `at`, or where it is wrong. */
static const char *find_end_of_number(const char *at, const char *end, const char **what) {
    at += at < end && *at == '-';
    const char *from = at;
    at = skip_digits(from, end);
    if (at == from || (*from == '0' && at - from > 1)) {
        *what = "a number should stand here";
        return at;
    }
    if (at < end && *at == '.') {
        from = at + 1;
        at = skip_digits(from, end);
        if (at == from) {
            *what = "a digit should stand after the point";
            return at;
        }
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        from = at + 1;
        from += from < end && (*from == '+' || *from == '-');
        at = skip_digits(from, end);
        if (at == from) *what = "the exponent has no digits";
    }
    return at;
}

rk_status rk_json_read_number(rk_json *json, rk_span *text) {
    const char *what = NULL;
    skip_spaces(json);
    const char *from = json->at;
    json->at = find_end_of_number(json->at, json->end, &what);
    if (what) return rk_json_error(json, what);
    *text = (rk_span){from, (size_t)(json->at - from)};
    return RK_OK;
}

rk_status rk_json_read_i64(rk_json *json, int64_t *value) {
    rk_span text;
    RK_TRY(rk_json_read_number(json, &text));
    return rk_parse_i64(text, value) ? RK_OK
                                     : rk_json_error(json, "a whole number of 64 bits should stand here");
}

rk_status rk_json_read_bool(rk_json *json, bool *value) {
    *value = skip_spaces(json) == 't';
    return read_literal(json, *value ? "true" : "false");
}

/* Four hexadecimal digits. */
static rk_status read_code_unit(rk_json *json, uint32_t *out) {
    uint32_t code = 0;
    for (int i = 0; i < 4; i++) {
        char c = json->at < json->end ? *json->at : 0;
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit == 16) return rk_json_error(json, "four hexadecimal digits should stand after \\u");
        code = code * 16 + digit;
        json->at++;
    }
    *out = code;
    return RK_OK;
}

static void append_utf8(rk_buffer *out, uint32_t c) {
    char bytes[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char marks[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n - 1; i > 0; i--, c >>= 6) bytes[i] = (char)(0x80 | (c & 0x3F));
    bytes[0] = (char)(marks[n] | c);
    rk_buffer_append(out, bytes, n);
}

/* After a backslash. */
static rk_status read_escape(rk_json *json) {
    static const char marks[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    char c = json->at < json->end ? *json->at++ : 0;
    const char *found = c ? strchr(marks, c) : NULL;
    if (found) {
        rk_buffer_append(&json->texts, meant + (found - marks), 1);
        return RK_OK;
    }
    if (c != 'u') return rk_json_error(json, "there is no such escape");
    uint32_t code, low;
    RK_TRY(read_code_unit(json, &code));
    if (code >= 0xD800 && code < 0xE000) {
        if (code >= 0xDC00 || !skip_character(json, '\\') || !skip_character(json, 'u'))
            return rk_json_error(json, "half of a surrogate pair");
        RK_TRY(read_code_unit(json, &low));
        if (low < 0xDC00 || low >= 0xE000) return rk_json_error(json, "half of a surrogate pair");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(&json->texts, code);
    return RK_OK;
}

/* Up to a quote or a backslash. */
static rk_status read_plain_characters(rk_json *json) {
    while (json->at < json->end && *json->at != '"' && *json->at != '\\') {
        unsigned char c = (unsigned char)*json->at;
        if (c < ' ') return rk_json_error(json, "a control character stands in a text");
        size_t n = c < 0x80 ? 1 : rk_utf8_bytes(json->at, (size_t)(json->end - json->at));
        if (n == 0) return rk_json_error(json, "the text is not UTF-8");
        json->at += n;
    }
    return json->at < json->end ? RK_OK : rk_json_error(json, "the text has no end");
}

/* Texts that were read stay where they are: there is room for all of the document from the first one on. */
static rk_status reserve_texts(rk_json *json) {
    size_t n =
        2 * (size_t)(json->end - json->begin); /* a text without its escapes, and what its base64 means */
    if (json->texts.n_bytes > 0 || json->texts.capacity > n) return RK_OK;
    rk_buffer_extend(&json->texts, n);
    RK_TRY(json->texts.status);
    rk_buffer_clear(&json->texts);
    return RK_OK;
}

rk_status rk_json_read_text(rk_json *json, rk_span *text) {
    if (skip_spaces(json) != '"') return rk_json_error(json, "a text in quotes should stand here");
    const char *from = ++json->at;
    RK_TRY(read_plain_characters(json));
    if (*json->at == '"') {
        *text = (rk_span){from, (size_t)(json->at++ - from)};
        return RK_OK;
    }
    RK_TRY(reserve_texts(json));
    size_t begin = json->texts.n_bytes;
    while (true) {
        rk_buffer_append(&json->texts, from, (size_t)(json->at - from));
        if (skip_character(json, '"')) break;
        json->at++;
        RK_TRY(read_escape(json));
        from = json->at;
        RK_TRY(read_plain_characters(json));
    }
    RK_TRY(json->texts.status);
    *text = (rk_span){json->texts.data + begin, json->texts.n_bytes - begin};
    return RK_OK;
}

static int decode_base64_digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* RFC 4648, with its padding. */
static rk_status decode_base64(rk_json *json, rk_span text, rk_span *out) {
    RK_TRY(reserve_texts(json));
    rk_buffer *to = &json->texts;
    size_t n = text.n_bytes, begin = to->n_bytes, padding = 0;
    while (padding < 2 && padding < n && text.data[n - 1 - padding] == '=') padding++;
    if (n % 4 != 0) return rk_json_error(json, "\"b64\": the length is no multiple of 4");
    for (size_t i = 0; i < n; i += 4) {
        uint32_t word = 0;
        for (size_t d = 0; d < 4; d++) {
            int digit = i + d >= n - padding ? 0 : decode_base64_digit(text.data[i + d]);
            if (digit < 0) return rk_json_error(json, "\"b64\": a character is none of base64");
            word = word << 6 | (uint32_t)digit;
        }
        const char bytes[3] = {(char)(word >> 16), (char)(word >> 8), (char)word};
        rk_buffer_append(to, bytes, i + 4 == n ? 3 - padding : 3);
    }
    RK_TRY(to->status);
    *out = (rk_span){to->data ? to->data + begin : "", to->n_bytes - begin};
    return RK_OK;
}

rk_status rk_json_read_base64(rk_json *json, rk_span *text) {
    rk_span key, encoded;
    RK_TRY(rk_json_open_object(json));
    bool is_base64 = rk_json_next_key(json, &key) && rk_span_equal(key, "b64");
    RK_TRY(json->status);
    if (!is_base64) return rk_json_error(json, "an object as a value must be {\"b64\": ...}");
    RK_TRY(rk_json_read_text(json, &encoded));
    bool has_more = rk_json_next_key(json, &key);
    RK_TRY(json->status);
    if (has_more) return rk_json_error(json, "an object as a value must be {\"b64\": ...}");
    return decode_base64(json, encoded, text);
}

static rk_status skip_array(rk_json *json) {
    RK_TRY(rk_json_open_array(json));
    while (rk_json_next_item(json)) {
        RK_TRY(rk_json_skip_value(json, NULL));
    }
    return json->status;
}

static rk_status skip_object(rk_json *json) {
    rk_span key;
    RK_TRY(rk_json_open_object(json));
    while (rk_json_next_key(json, &key)) {
        RK_TRY(rk_json_skip_value(json, NULL));
    }
    return json->status;
}

static rk_status skip_value_of_kind(rk_json *json, rk_json_kind kind) {
    rk_span text;
    switch (kind) {
        case RK_JSON_NULL:
            return read_literal(json, "null");
        case RK_JSON_FALSE:
            return read_literal(json, "false");
        case RK_JSON_TRUE:
            return read_literal(json, "true");
        case RK_JSON_NUMBER:
            return rk_json_read_number(json, &text);
        case RK_JSON_TEXT:
            return rk_json_read_text(json, &text);
        case RK_JSON_ARRAY:
            return skip_array(json);
        default:
            return skip_object(json);
    }
}

rk_status rk_json_skip_value(rk_json *json, rk_span *value) {
    rk_json_kind kind;
    RK_TRY(rk_json_peek_kind(json, &kind));
    const char *from = json->at;
    RK_TRY(skip_value_of_kind(json, kind));
    if (value) *value = (rk_span){from, (size_t)(json->at - from)};
    return RK_OK;
}

rk_status rk_json_check_end(rk_json *json) {
    RK_TRY(json->status);
    skip_spaces(json);
    return json->at == json->end ? RK_OK : rk_json_error(json, "something stands behind the value");
}
