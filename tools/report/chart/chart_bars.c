#include <math.h>
#include <stdio.h>

#include "base/text/text.h"
#include "report/chart/chart.h"
#include "report/chart/chart_internal.h"
#include "report/chart/axis_scale.h"
#include "report/chart/svg.h"

static double bar_thickness(const rk_bars *b) {
    return b->n_series <= 1 ? 13 : b->n_series == 2 ? 11 : 7;
}
static double bar_row_height(const rk_bars *b) {
    return bar_thickness(b) * (double)b->n_series + (b->n_series <= 1 ? 9 : 12);
}
static double bars_top(const rk_bars *b) {
    return b->title ? 34 : 8;
}

static double bars_height(const rk_bars *b) {
    return bars_top(b) + bar_row_height(b) * (double)b->n_rows + (b->axis ? 44 : 28);
}

static rk_scale make_scale_of_bars(const rk_bars *b, double left, double right) {
    rk_range range = RK_RANGE_INIT;
    rk_range_add(&range, 0, false);
    for (size_t i = 0; i < b->n_rows * b->n_series; i++) {
        rk_range_add(&range, b->values[i], false);
        if (b->low && isfinite(b->values[i])) rk_range_add(&range, b->low[i], false);
        if (b->high && isfinite(b->values[i])) rk_range_add(&range, b->high[i], false);
    }
    rk_scale scale = rk_scale_fit(range, false, 0.02, left, right);
    if (range.low == 0) scale.low = 0; /* bars stand on the edge */
    return scale;
}

static void draw_bar(const rk_bars *b, const rk_scale *scale, size_t row, size_t series, double y,
                     rk_buffer *out) {
    size_t i = row * b->n_series + series;
    if (!isfinite(b->values[i])) return;
    double zero = rk_scale_position(scale, 0), end = rk_scale_position(scale, b->values[i]),
           thick = bar_thickness(b);
    char number[32], text[400];
    rk_buffer_printf(out, "<rect class=\"bar c%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\">",
                     (int)(series % RK_CHART_COLOURS), fmin(zero, end), y, fmax(fabs(end - zero), 0.8),
                     thick - 1.5);
    rk_snprintf(number, sizeof number, "%.4g", b->values[i]);
    snprintf(text, sizeof text, "%s%s%s: %s", b->rows[row], b->n_series > 1 ? ", " : "",
             b->n_series > 1 ? b->series[series] : "", number);
    rk_svg_write_title(text, out);
    rk_buffer_append_text(out, "</rect>\n");
    if (!b->low || !b->high || !(b->high[i] > b->low[i])) return;
    rk_svg_write_line("whisker", rk_scale_position(scale, b->low[i]), y + thick / 2 - 0.7,
                      rk_scale_position(scale, b->high[i]), y + thick / 2 - 0.7, out);
}

/* Numbers stand in a column of their own, where they can be compared. */
static void draw_row_of_bars(const rk_bars *b, const rk_scale *scale, size_t row, double left, double y,
                             rk_buffer *out) {
    double middle = y + bar_thickness(b) * (double)b->n_series / 2;
    rk_svg_write_text("label", left - 10, middle + 4, "end", b->rows[row], out);
    for (size_t s = 0; s < b->n_series; s++)
        draw_bar(b, scale, row, s, y + bar_thickness(b) * (double)s, out);
    char text[32];
    for (size_t s = 0; s < b->n_series; s++) {
        double value = b->values[row * b->n_series + s];
        rk_snprintf(text, sizeof text, isfinite(value) ? "%.4f" : "-", value);
        if (b->n_series <= 2)
            rk_svg_write_text(b->n_series == 1 ? "tick" : "small", b->width - 2,
                              y + bar_thickness(b) * ((double)s + 0.5) + 3, "end", text, out);
    }
}

void rk_bars_draw(const rk_bars *b, double x, double y, rk_buffer *out) {
    double left = 40, top = bars_top(b), bottom = top + bar_row_height(b) * (double)b->n_rows,
           right = b->width - (b->n_series <= 2 ? 62 : 12);
    for (size_t i = 0; i < b->n_rows; i++) left = fmax(left, rk_svg_estimate_text_width(b->rows[i], 12) + 14);
    left = fmin(left, b->width / 3);
    rk_scale scale = make_scale_of_bars(b, left, right);
    rk_ticks ticks;
    rk_scale_ticks(&scale, (int)((right - left) / 90) + 1, &ticks);
    rk_chart_begin_svg(x, y, b->width, bars_height(b), b->title, out);
    for (size_t i = 0; i < ticks.n; i++) {
        double place = rk_scale_position(&scale, ticks.values[i]);
        rk_svg_write_line(ticks.values[i] == 0 ? "axis" : "grid", place, top - 4, place, bottom, out);
        rk_svg_write_text("tick", place, bottom + 16, "middle", ticks.texts[i], out);
    }
    for (size_t i = 0; i < b->n_rows; i++)
        draw_row_of_bars(b, &scale, i, left,
                         top + bar_row_height(b) * (double)i +
                             (bar_row_height(b) - bar_thickness(b) * (double)b->n_series) / 2,
                         out);
    if (b->axis) rk_svg_write_text("name", (left + right) / 2, bottom + 37, "middle", b->axis, out);
    rk_buffer_append_text(out, "</svg>\n");
}
