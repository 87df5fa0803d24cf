/* Text for SVG: about how wide words are, numbers, labels. */
#ifndef RK_REPORT_CHART_SVG_H
#define RK_REPORT_CHART_SVG_H

#include "base/buffer.h"

/* About the pixels that a text of this size takes in a plain typeface; nobody measures fonts here. */
double rk_svg_estimate_text_width(const char *text, double size);

/* A coordinate: a tenth of a pixel is enough, and short. */
void rk_svg_write_number(double value, rk_buffer *out);

/* <text class="..." x y>escaped</text>; anchor: "start", "middle" or "end". */
void rk_svg_write_text(const char *class_name, double x, double y, const char *anchor, const char *text,
                       rk_buffer *out);
void rk_svg_write_line(const char *class_name, double x1, double y1, double x2, double y2, rk_buffer *out);
/* What a pointer that rests on the element shows. */
void rk_svg_write_title(const char *text, rk_buffer *out);

#endif
