#include "format/text/libsvm.h"

#include <string.h>

#include "base/memory.h"
#include "base/text/text.h"

void rk_libsvm_row_release(rk_libsvm_row *row) {
    RK_FREE_ALL(row->labels, row->ids, row->values);
    *row = (rk_libsvm_row){0};
}

/* The next word of the line; empty at its end. */
static rk_span next_word(const char **at, const char *end) {
    while (*at < end && (**at == ' ' || **at == '\t' || **at == '\r')) (*at)++;
    const char *begin = *at;
    while (*at < end && **at != ' ' && **at != '\t' && **at != '\r') (*at)++;
    return (rk_span){begin, (size_t)(*at - begin)};
}

static rk_status parse_labels(rk_span word, rk_libsvm_row *row) {
    const char *at = word.data, *end = at + word.n_bytes;
    for (;;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        rk_span part = {at, (size_t)((comma ? comma : end) - at)};
        RK_TRY(rk_reserve_one_more(&row->labels, row->n_labels, &row->labels_capacity, sizeof *row->labels));
        RK_FAIL_IF(!rk_parse_f32(part, &row->labels[row->n_labels]), RK_BAD_DATA,
                   "the label '%.*s' is not a number", rk_span_printed_bytes(part), part.data);
        row->n_labels++;
        if (!comma) return RK_OK;
        at = comma + 1;
    }
}

static rk_status parse_id_value_pair(rk_span word, rk_libsvm_row *row) {
    const char *colon = memchr(word.data, ':', word.n_bytes);
    rk_span left = {word.data, colon ? (size_t)(colon - word.data) : word.n_bytes};
    int64_t id;
    if (colon && rk_span_equal(left, "qid")) {
        RK_FAIL_IF(!rk_parse_i64((rk_span){colon + 1, word.n_bytes - left.n_bytes - 1}, &row->group),
                   RK_BAD_DATA, "'%.*s' is not qid:NUMBER", rk_span_printed_bytes(word), word.data);
        row->has_group = true;
        return RK_OK;
    }
    RK_FAIL_IF(!rk_parse_i64(left, &id), RK_BAD_DATA, "'%.*s' is not index:value",
               rk_span_printed_bytes(word), word.data);
    RK_TRY(rk_reserve_one_more(&row->ids, row->n_ids, &row->ids_capacity, sizeof *row->ids));
    RK_TRY(rk_reserve_one_more(&row->values, row->n_ids, &row->values_capacity, sizeof *row->values));
    row->ids[row->n_ids] = id;
    row->values[row->n_ids] = 1;
    if (colon)
        RK_FAIL_IF(
            !rk_parse_f32((rk_span){colon + 1, word.n_bytes - left.n_bytes - 1}, &row->values[row->n_ids]),
            RK_BAD_DATA, "'%.*s' is not index:value", rk_span_printed_bytes(word), word.data);
    row->n_ids++;
    return RK_OK;
}

rk_status rk_libsvm_parse(const char *line, size_t n_bytes, rk_libsvm_row *row) {
    row->n_labels = row->n_ids = 0;
    row->has_group = false;
    const char *at = line, *comment = memchr(line, '#', n_bytes), *end = comment ? comment : line + n_bytes;
    rk_span word = next_word(&at, end);
    if (word.n_bytes == 0) return RK_OK;
    RK_TRY(parse_labels(word, row));
    while ((word = next_word(&at, end)).n_bytes) RK_TRY(parse_id_value_pair(word, row));
    return RK_OK;
}
