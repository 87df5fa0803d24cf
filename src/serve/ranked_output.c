/* Answers as lines of CSV or JSON. */
#include <math.h>
#include <string.h>

#include "data/transform/joined_rows.h"
#include "format/json_writer.h"
#include "format/text/csv.h"
#include "serve/recommend_internal.h"

rk_status rk_ranked_output_open(const char *path, rk_recommend_format format, const char *key,
                                const char *columns, rk_ranked_output *out) {
    *out = (rk_ranked_output){.format = format, .key = key};
    RK_FAIL_IF(format != RK_RECOMMEND_CSV && format != RK_RECOMMEND_JSONL, RK_INVALID_ARGUMENT,
               "there is no format %d of recommendations", (int)format);
    RK_TRY(rk_byte_sink_open(path ? path : "-", &out->sink));
    if (format == RK_RECOMMEND_CSV) rk_buffer_printf(&out->line, "%s,rank,%s,score\n", key, columns);
    return out->line.status;
}

static void write_score_text(rk_buffer *line, float score) {
    char scratch[RK_NUMBER_BYTES];
    rk_span text = rk_format_f32(score, scratch);
    rk_buffer_append(line, text.data, text.n_bytes);
}

static void write_csv_line(rk_buffer *line, const rk_ranked *ranked) {
    static const rk_csv_dialect dialect = {.separator = ',', .quote = '"'};
    for (int64_t i = 0; i < ranked->n; i++) {
        rk_csv_write_field(&dialect, ranked->name, true, line);
        rk_buffer_printf(line, ",%lld", (long long)i + 1);
        if (ranked->rows) rk_buffer_printf(line, ",%lld", (long long)ranked->rows[i]);
        if (ranked->items) rk_csv_write_field(&dialect, ranked->items[i], false, line);
        rk_buffer_append_u8(line, ',');
        write_score_text(line, ranked->scores[i]);
        rk_buffer_append_u8(line, '\n');
    }
}

static rk_status write_json_text(rk_buffer *line, rk_span text) {
    rk_buffer ended = {0};
    rk_buffer_append(&ended, text.data, text.n_bytes);
    rk_buffer_append_u8(&ended, 0);
    rk_status status = ended.status;
    if (status == RK_OK) status = rk_json_write_string(line, ended.data);
    rk_buffer_release(&ended);
    return status == RK_INVALID_ARGUMENT ? rk_error_hint(RK_BAD_DATA, "write csv, which takes any bytes")
                                         : status;
}

static rk_status write_json_line(rk_buffer *line, const char *key, const rk_ranked *ranked) {
    rk_buffer_printf(line, "{\"%s\":", key);
    RK_TRY(write_json_text(line, ranked->name));
    if (ranked->rows) {
        rk_buffer_append_text(line, ",\"rows\":[");
        for (int64_t i = 0; i < ranked->n; i++)
            rk_buffer_printf(line, "%s%lld", i ? "," : "", (long long)ranked->rows[i]);
        rk_buffer_append_u8(line, ']');
    }
    for (int64_t i = 0; ranked->items && i < ranked->n; i++) {
        rk_buffer_append_text(line, i ? "," : ",\"items\":[");
        RK_TRY(write_json_text(line, ranked->items[i]));
    }
    if (ranked->items) rk_buffer_append_text(line, ranked->n ? "]" : ",\"items\":[]");
    rk_buffer_append_text(line, ",\"scores\":[");
    for (int64_t i = 0; i < ranked->n; i++) {
        rk_buffer_append_text(line, i ? "," : "");
        write_score_text(line, ranked->scores[i]);
    }
    rk_buffer_append_text(line, "]}\n");
    return RK_OK;
}

static rk_status flush_lines(rk_ranked_output *o) {
    RK_TRY(o->line.status);
    RK_TRY(rk_byte_sink_write(o->sink, o->line.data, o->line.n_bytes));
    rk_buffer_clear(&o->line);
    return RK_OK;
}

rk_status rk_ranked_output_write(rk_ranked_output *o, const rk_ranked *ranked) {
    enum { ENOUGH = 1 << 16 };
    if (!o->sink) return RK_OK;
    for (int64_t i = 0; i < ranked->n; i++)
        if (!isfinite(ranked->scores[i]))
            return rk_error_hint(
                rk_error(RK_NOT_FINITE, "%s '%.*s': a score is not finite", o->key,
                         rk_span_printed_bytes(ranked->name), ranked->name.data),
                "parameters of the checkpoint or values of the row are too large, or not finite");
    if (o->format == RK_RECOMMEND_CSV)
        write_csv_line(&o->line, ranked);
    else
        RK_TRY(write_json_line(&o->line, o->key, ranked));
    return o->line.n_bytes < ENOUGH ? o->line.status : flush_lines(o);
}

rk_status rk_ranked_output_commit(rk_ranked_output *o) {
    if (!o->sink) return RK_OK;
    RK_TRY(flush_lines(o));
    return rk_byte_sink_commit(o->sink);
}

void rk_ranked_output_release(rk_ranked_output *o) {
    rk_byte_sink_free(o->sink);
    rk_buffer_release(&o->line);
    *o = (rk_ranked_output){0};
}
