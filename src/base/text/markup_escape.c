#include "base/text/markup_escape.h"

#include <string.h>

#include "base/text/text.h"

#define REPLACEMENT "\xEF\xBF\xBD"

static const char *entity_of_char(unsigned char c) {
    switch (c) {
        case '&':
            return "&amp;";
        case '<':
            return "&lt;";
        case '>':
            return "&gt;";
        case '"':
            return "&quot;";
        case '\'':
            return "&#39;";
        case '\t':
        case '\n':
            return " ";
        default:
            return c < 32 || c == 127 ? REPLACEMENT : NULL;
    }
}

void rk_markup_escape(const char *text, rk_buffer *out) {
    for (const char *at = text, *end = text + strlen(text); at < end;) {
        size_t n = rk_utf8_bytes(at, (size_t)(end - at));
        const char *instead = n ? entity_of_char((unsigned char)*at) : REPLACEMENT;
        if (instead)
            rk_buffer_append_text(out, instead);
        else
            rk_buffer_append(out, at, n);
        at += n ? n : 1;
    }
}
