#include "report/chart/svg.h"

#include <math.h>
#include <stdio.h>

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

void rk_svg_escape(const char *text, rk_buffer *out) {
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

double rk_svg_text_width(const char *text, double size) {
    size_t n = 0;
    for (const char *at = text; *at; at++) n += (*at & 0xC0) != 0x80;
    return 0.56 * size * (double)n;
}

void rk_svg_number(double value, rk_buffer *out) {
    double tenths = round(value * 10) / 10;
    rk_buffer_printf(out, tenths == floor(tenths) ? "%.0f" : "%.1f", tenths + 0.0);
}

static void attribute(const char *name, double value, rk_buffer *out) {
    rk_buffer_printf(out, " %s=\"", name);
    rk_svg_number(value, out);
    rk_buffer_text(out, "\"");
}

void rk_svg_text(const char *class_name, double x, double y, const char *anchor, const char *text,
                 rk_buffer *out) {
    rk_buffer_printf(out, "<text class=\"%s\"", class_name);
    attribute("x", x, out);
    attribute("y", y, out);
    rk_buffer_printf(out, " text-anchor=\"%s\">", anchor);
    rk_svg_escape(text, out);
    rk_buffer_text(out, "</text>\n");
}

void rk_svg_line(const char *class_name, double x1, double y1, double x2, double y2, rk_buffer *out) {
    rk_buffer_printf(out, "<line class=\"%s\"", class_name);
    attribute("x1", x1, out);
    attribute("y1", y1, out);
    attribute("x2", x2, out);
    attribute("y2", y2, out);
    rk_buffer_text(out, "/>\n");
}

void rk_svg_title(const char *text, rk_buffer *out) {
    rk_buffer_text(out, "<title>");
    rk_svg_escape(text, out);
    rk_buffer_text(out, "</title>");
}
