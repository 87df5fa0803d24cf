#include "format/json_writer.h"

static bool is_utf8(rk_span text) {
    for (size_t at = 0, n; at < text.n_bytes; at += n)
        if ((n = rk_utf8_bytes(text.data + at, text.n_bytes - at)) == 0) return false;
    return true;
}

void rk_json_write_string_repaired(rk_buffer *out, rk_span text) {
    size_t written = 0;
    rk_buffer_append(out, "\"", 1);
    for (size_t at = 0, n; at < text.n_bytes; at += n) {
        unsigned char c = (unsigned char)text.data[at];
        n = rk_utf8_bytes(text.data + at, text.n_bytes - at);
        if (n > 0 && c >= ' ' && c != '"' && c != '\\' && c != 0x7F) continue;
        rk_buffer_append(out, text.data + written, at - written);
        if (n == 0)
            rk_buffer_append_text(out, "\\ufffd");
        else if (c == '"' || c == '\\')
            rk_buffer_printf(out, "\\%c", c);
        else
            rk_buffer_printf(out, "\\u%04x", c);
        if (n == 0) n = 1;
        written = at + n;
    }
    if (written < text.n_bytes) rk_buffer_append(out, text.data + written, text.n_bytes - written);
    rk_buffer_append(out, "\"", 1);
}

rk_status rk_json_write_string(rk_buffer *out, const char *text) {
    rk_span all = {text, strlen(text)};
    RK_FAIL_IF(!is_utf8(all), RK_INVALID_ARGUMENT, "the name '%s' is not UTF-8", text);
    rk_json_write_string_repaired(out, all);
    return out->status;
}
