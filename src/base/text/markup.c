#include "base/text/markup.h"

#include <stddef.h>

#define REPLACEMENT "\xEF\xBF\xBD"

/* Bytes of the UTF-8 character that begins here; 0: none does. Overlong forms, surrogates and what is beyond
 * U+10FFFF are none. */
static size_t character(const unsigned char *at) {
    size_t n = at[0] < 0x80                    ? 1
               : at[0] >= 0xC2 && at[0] < 0xE0 ? 2
               : at[0] >= 0xE0 && at[0] < 0xF0 ? 3
               : at[0] >= 0xF0 && at[0] < 0xF5 ? 4
                                               : 0;
    for (size_t i = 1; i < n; i++)
        if ((at[i] & 0xC0) != 0x80) return 0;
    if (n == 3 && ((at[0] == 0xE0 && at[1] < 0xA0) || (at[0] == 0xED && at[1] >= 0xA0))) return 0;
    if (n == 4 && ((at[0] == 0xF0 && at[1] < 0x90) || (at[0] == 0xF4 && at[1] >= 0x90))) return 0;
    return n;
}

static const char *entity(unsigned char c) {
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
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        size_t n = character(at);
        const char *instead = n ? entity(*at) : REPLACEMENT;
        if (instead)
            rk_buffer_text(out, instead);
        else
            rk_buffer_append(out, at, n);
        at += n ? n : 1;
    }
}
