#include "report/chart/chart.h"

#include <math.h>
#include <stdio.h>

#include "base/text/markup_escape.h"
#include "report/chart/chart_internal.h"
#include "report/chart/axis_scale.h"
#include "report/chart/svg.h"

enum { FEW = 40 }; /* points that get a dot each */

/* Where everything goes. */
typedef struct plot {
    double left, right, top, bottom;
    rk_scale x, y;
    rk_ticks x_ticks, y_ticks;
} plot;

static rk_range find_range_of_axis(const rk_chart *c, bool of_x) {
    const rk_axis *axis = of_x ? &c->x : &c->y;
    rk_range range = RK_RANGE_INIT;
    for (size_t s = 0; s < c->n_series; s++) {
        const rk_series *series = &c->series[s];
        for (size_t i = 0; i < series->n; i++) {
            if (!isfinite(series->x[i]) || !isfinite(series->y[i])) continue;
            rk_range_add(&range, of_x ? series->x[i] : series->y[i], axis->log);
            if (of_x || !series->low) continue;
            rk_range_add(&range, series->low[i], axis->log);
            rk_range_add(&range, series->high[i], axis->log);
        }
    }
    return range;
}

static rk_scale make_scale_of_axis(const rk_chart *c, bool of_x, double from, double to) {
    const rk_axis *axis = of_x ? &c->x : &c->y;
    if (axis->categories)
        return (rk_scale){.low = -0.5, .high = (double)axis->n_categories - 0.5, .from = from, .to = to};
    if (axis->is_fixed)
        return (rk_scale){.low = axis->low, .high = axis->high, .log = axis->log, .from = from, .to = to};
    rk_scale scale = rk_scale_fit(find_range_of_axis(c, of_x), axis->log, of_x ? 0.02 : 0.06, from, to);
    scale.whole = axis->is_whole;
    return scale;
}

static plot lay_out_plot(const rk_chart *c) {
    plot p = {.right = c->width - 12,
              .top = 34 + (c->has_legend ? 20 : 0),
              .bottom = c->height - (c->x.title ? 42 : 26)};
    double widest = 0;
    p.y = make_scale_of_axis(c, false, p.bottom, p.top);
    rk_scale_ticks(&p.y, (int)((p.bottom - p.top) / 55) + 1, &p.y_ticks);
    for (size_t i = 0; i < p.y_ticks.n; i++)
        widest = fmax(widest, rk_svg_estimate_text_width(p.y_ticks.texts[i], 11));
    p.left = widest + 12;
    p.x = make_scale_of_axis(c, true, p.left, p.right);
    rk_scale_ticks(&p.x, (int)((p.right - p.left) / 80) + 1, &p.x_ticks);
    return p;
}

static void draw_categories(const rk_chart *c, const plot *p, rk_buffer *out) {
    double room = (p->right - p->left) / (double)c->x.n_categories, widest = 0;
    for (size_t i = 0; i < c->x.n_categories; i++)
        widest = fmax(widest, rk_svg_estimate_text_width(c->x.categories[i], 11) + 6);
    size_t every = (size_t)fmax(1, ceil(widest / room)); /* names that would overlap are left out */
    for (size_t i = 0; i < c->x.n_categories; i += every)
        rk_svg_write_text("tick", rk_scale_position(&p->x, (double)i), p->bottom + 16, "middle",
                          c->x.categories[i], out);
}

static void draw_axes(const rk_chart *c, const plot *p, rk_buffer *out) {
    for (size_t i = 0; i < p->y_ticks.n; i++) {
        double y = rk_scale_position(&p->y, p->y_ticks.values[i]);
        rk_svg_write_line("grid", p->left, y, p->right, y, out);
        rk_svg_write_text("tick", p->left - 7, y + 4, "end", p->y_ticks.texts[i], out);
    }
    rk_svg_write_line("axis", p->left, p->bottom, p->right, p->bottom, out);
    if (c->x.categories) draw_categories(c, p, out);
    for (size_t i = 0; !c->x.categories && i < p->x_ticks.n; i++) {
        double x = rk_scale_position(&p->x, p->x_ticks.values[i]);
        rk_svg_write_line("axis", x, p->bottom, x, p->bottom + 4, out);
        rk_svg_write_text("tick", x, p->bottom + 17, "middle", p->x_ticks.texts[i], out);
    }
    if (c->x.title)
        rk_svg_write_text("name", (p->left + p->right) / 2, c->height - 6, "middle", c->x.title, out);
    if (c->has_diagonal)
        rk_svg_write_line("guide", rk_scale_position(&p->x, fmax(p->x.low, p->y.low)),
                          rk_scale_position(&p->y, fmax(p->x.low, p->y.low)),
                          rk_scale_position(&p->x, fmin(p->x.high, p->y.high)),
                          rk_scale_position(&p->y, fmin(p->x.high, p->y.high)), out);
}

static bool is_point_drawable(const rk_chart *c, const rk_series *s, size_t i) {
    return isfinite(s->x[i]) && isfinite(s->y[i]) && !(c->x.log && s->x[i] <= 0) &&
           !(c->y.log && s->y[i] <= 0);
}

static void append_path_point(const plot *p, char letter, double x, double y, rk_buffer *out) {
    rk_buffer_append_u8(out, (uint8_t)letter);
    rk_svg_write_number(rk_scale_position(&p->x, x), out);
    rk_buffer_append_text(out, " ");
    rk_svg_write_number(rk_scale_position(&p->y, y), out);
}

static void draw_line(const rk_chart *c, const plot *p, const rk_series *s, rk_buffer *out) {
    int k = s->colour % RK_CHART_COLOURS;
    rk_buffer_printf(out, "<path class=\"%s c%d d%d\" d=\"", s->kind == RK_SERIES_PALE ? "pale" : "line", k,
                     k);
    bool open = false;
    for (size_t i = 0; i < s->n; i++) {
        bool drawn = is_point_drawable(c, s, i);
        if (drawn && open && s->kind == RK_SERIES_STEPS) append_path_point(p, 'L', s->x[i], s->y[i - 1], out);
        if (drawn) append_path_point(p, open ? 'L' : 'M', s->x[i], s->y[i], out);
        open = drawn;
    }
    rk_buffer_append_text(out, "\"/>\n");
}

static void draw_error_bars(const rk_chart *c, const plot *p, const rk_series *s, rk_buffer *out) {
    char name[32];
    snprintf(name, sizeof name, "spread c%d", s->colour % RK_CHART_COLOURS);
    for (size_t i = 0; i < s->n; i++) {
        if (!is_point_drawable(c, s, i) || !isfinite(s->low[i]) || !isfinite(s->high[i])) continue;
        double x = rk_scale_position(&p->x, s->x[i]);
        rk_svg_write_line(name, x, rk_scale_position(&p->y, fmax(s->low[i], p->y.low)), x,
                          rk_scale_position(&p->y, fmin(s->high[i], p->y.high)), out);
    }
}

static void draw_dot(const plot *p, const rk_series *s, size_t i, double radius, rk_buffer *out) {
    bool ring = s->has_mark && s->mark == i;
    rk_buffer_printf(out, "<circle class=\"%s c%d\" cx=\"", ring ? "ring" : "dot",
                     s->colour % RK_CHART_COLOURS);
    rk_svg_write_number(rk_scale_position(&p->x, s->x[i]), out);
    rk_buffer_append_text(out, "\" cy=\"");
    rk_svg_write_number(rk_scale_position(&p->y, s->y[i]), out);
    rk_buffer_printf(out, "\" r=\"%g\">", ring ? radius + 2.5 : radius);
    char x[32], y[32], text[300];
    rk_format_short_number(s->x[i], x, sizeof x);
    rk_format_short_number(s->y[i], y, sizeof y);
    snprintf(text, sizeof text, "%s%s%s at %s", s->name ? s->name : "", s->name ? ": " : "", y, x);
    rk_svg_write_title(s->notes && s->notes[i] ? s->notes[i] : text, out);
    rk_buffer_append_text(out, "</circle>\n");
}

static void draw_series(const rk_chart *c, const plot *p, const rk_series *s, rk_buffer *out) {
    if (s->kind != RK_SERIES_POINTS) draw_line(c, p, s, out);
    if (s->low) draw_error_bars(c, p, s, out);
    bool dots = s->kind == RK_SERIES_POINTS || (s->kind == RK_SERIES_LINE && s->n <= FEW);
    for (size_t i = 0; i < s->n; i++)
        if (is_point_drawable(c, s, i) && (dots || (s->has_mark && s->mark == i)))
            draw_dot(p, s, i, s->kind == RK_SERIES_POINTS ? 3.5 : 2.5, out);
}

static void draw_legend(const rk_chart *c, double left, rk_buffer *out) {
    double x = left;
    for (size_t s = 0; s < c->n_series; s++) {
        const rk_series *series = &c->series[s];
        int k = series->colour % RK_CHART_COLOURS;
        if (series->kind == RK_SERIES_POINTS)
            rk_buffer_printf(out, "<circle class=\"dot c%d\" cx=\"%.1f\" cy=\"34\" r=\"3.5\"/>\n", k, x + 9);
        else
            rk_buffer_printf(out, "<path class=\"%s c%d d%d\" d=\"M%.1f 34h18\"/>\n",
                             series->kind == RK_SERIES_PALE ? "pale" : "line", k, k, x);
        rk_svg_write_text("name", x + 24, 38, "start", series->name ? series->name : "", out);
        x += 24 + rk_svg_estimate_text_width(series->name ? series->name : "", 12) + 18;
    }
}

void rk_chart_begin_svg(double x, double y, double width, double height, const char *title, rk_buffer *out) {
    rk_buffer_printf(out,
                     "<svg class=\"chart\" x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\" viewBox=\"0 0 %g "
                     "%g\" role=\"img\" aria-label=\"",
                     x, y, width, height, width, height);
    rk_markup_escape(title ? title : "", out);
    rk_buffer_append_text(out, "\">\n");
    if (title) rk_svg_write_text("title", 0, 14, "start", title, out);
}

void rk_chart_draw(const rk_chart *c, double x, double y, rk_buffer *out) {
    plot p = lay_out_plot(c);
    rk_chart_begin_svg(x, y, c->width, c->height, c->title, out);
    draw_axes(c, &p, out);
    if (c->has_legend) draw_legend(c, p.left, out);
    rk_range seen = find_range_of_axis(c, false);
    if (seen.low > seen.high)
        rk_svg_write_text("name", (p.left + p.right) / 2, (p.top + p.bottom) / 2, "middle", "no values", out);
    for (int front = 0; front < 2; front++)
        for (size_t s = 0; s < c->n_series; s++)
            if ((c->series[s].kind != RK_SERIES_PALE) == front) draw_series(c, &p, &c->series[s], out);
    rk_buffer_append_text(out, "</svg>\n");
}
