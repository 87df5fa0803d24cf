#include "format/text/adjacency.h"

#include "base/text/text.h"

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* The next word of the line; empty at its end. */
static rk_span next_word(rk_adjacency_line *line) {
    while (line->at < line->end && is_blank(*line->at)) line->at++;
    const char *begin = line->at;
    while (line->at < line->end && !is_blank(*line->at)) line->at++;
    return (rk_span){begin, (size_t)(line->at - begin)};
}

static rk_status parse_id(rk_span word, const char *what, int64_t *out) {
    RK_FAIL_IF(!rk_parse_i64(word, out), RK_BAD_DATA, "the %s '%.*s' is not a whole number", what,
               rk_span_printed_bytes(word), word.data);
    return RK_OK;
}

rk_status rk_adjacency_begin_line(const char *data, size_t n_bytes, rk_adjacency_line *out) {
    *out = (rk_adjacency_line){0, data, data + n_bytes, false};
    rk_span word = next_word(out);
    out->is_blank = word.n_bytes == 0;
    return word.n_bytes ? parse_id(word, "user", &out->user) : RK_OK;
}

rk_status rk_adjacency_next_item(rk_adjacency_line *line, int64_t *item, bool *found) {
    rk_span word = next_word(line);
    *found = word.n_bytes > 0;
    return *found ? parse_id(word, "item", item) : RK_OK;
}
