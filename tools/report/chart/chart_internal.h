/* What the files that draw charts share. */
#ifndef RK_REPORT_CHART_CHART_INTERNAL_H
#define RK_REPORT_CHART_CHART_INTERNAL_H

#include "base/buffer.h"

/* <svg ...> with its title (NULL: none); ended by "</svg>". */
void rk_chart_begin_svg(double x, double y, double width, double height, const char *title, rk_buffer *out);

#endif
