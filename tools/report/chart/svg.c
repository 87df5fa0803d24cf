#include "report/chart/svg.h"

#include <math.h>
#include <stdio.h>

#include "base/text/markup_escape.h"

double rk_svg_estimate_text_width(const char *text, double size) {
    size_t n = 0;
    for (const char *at = text; *at; at++) n += (*at & 0xC0) != 0x80;
    return 0.56 * size * (double)n;
}

void rk_svg_write_number(double value, rk_buffer *out) {
    double tenths = round(value * 10) / 10;
    rk_buffer_printf(out, tenths == floor(tenths) ? "%.0f" : "%.1f", tenths + 0.0);
}

static void write_number_attribute(const char *name, double value, rk_buffer *out) {
    rk_buffer_printf(out, " %s=\"", name);
    rk_svg_write_number(value, out);
    rk_buffer_append_text(out, "\"");
}

void rk_svg_write_text(const char *class_name, double x, double y, const char *anchor, const char *text,
                       rk_buffer *out) {
    rk_buffer_printf(out, "<text class=\"%s\"", class_name);
    write_number_attribute("x", x, out);
    write_number_attribute("y", y, out);
    rk_buffer_printf(out, " text-anchor=\"%s\">", anchor);
    rk_markup_escape(text, out);
    rk_buffer_append_text(out, "</text>\n");
}

void rk_svg_write_line(const char *class_name, double x1, double y1, double x2, double y2, rk_buffer *out) {
    rk_buffer_printf(out, "<line class=\"%s\"", class_name);
    write_number_attribute("x1", x1, out);
    write_number_attribute("y1", y1, out);
    write_number_attribute("x2", x2, out);
    write_number_attribute("y2", y2, out);
    rk_buffer_append_text(out, "/>\n");
}

void rk_svg_write_title(const char *text, rk_buffer *out) {
    rk_buffer_append_text(out, "<title>");
    rk_markup_escape(text, out);
    rk_buffer_append_text(out, "</title>");
}
