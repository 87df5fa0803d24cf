/* Charts as SVG text: lines and points over two axes, and bars. Colours come from the style sheet
 * (rk_chart_write_style_sheet), so that one picture serves light and dark pages and paper. A chart is an
 * <svg> element that stands alone in a page or, by x and y, inside another. */
#ifndef RK_REPORT_CHART_CHART_H
#define RK_REPORT_CHART_CHART_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

enum { RK_CHART_COLOURS = 8 };

typedef enum rk_series_kind {
    RK_SERIES_LINE,  /* with dots where the values are few */
    RK_SERIES_CURVE, /* without dots */
    RK_SERIES_PALE,  /* a thin line behind the others */
    RK_SERIES_STEPS, /* stays until the next value */
    RK_SERIES_POINTS
} rk_series_kind;

/* Values that are not finite leave a gap. */
typedef struct rk_series {
    const char *name;
    rk_series_kind kind;
    int colour; /* taken modulo RK_CHART_COLOURS */
    size_t n;
    const double *x, *y;      /* [n] */
    const double *low, *high; /* [n] a bar of uncertainty about each point, or NULL */
    const char *const *notes; /* [n] what the point says of itself, or NULL: its values */
    bool has_mark;            /* a ring around point `mark` */
    size_t mark;
} rk_series;

typedef struct rk_axis {
    const char *title; /* or NULL */
    bool log;
    bool is_whole; /* counts something: ticks are whole numbers */
    bool is_fixed; /* from low to high; else as the data has it */
    double low, high;
    const char *const *categories; /* [n_categories] names at 0, 1, ...; or NULL */
    size_t n_categories;
} rk_axis;

typedef struct rk_chart {
    const char *title;
    double width, height;
    rk_axis x, y;
    const rk_series *series; /* [n_series] */
    size_t n_series;
    bool has_diagonal, has_legend;
} rk_chart;
void rk_chart_draw(const rk_chart *chart, double x, double y, rk_buffer *out);

/* Rows of bars from 0, one bar a series. */
typedef struct rk_bars {
    const char *title; /* or NULL */
    const char *axis;  /* or NULL */
    double width;
    const char *const *rows; /* [n_rows] */
    size_t n_rows, n_series;
    const char *const *series;         /* [n_series] names */
    const double *values, *low, *high; /* [n_rows, n_series]; NaN: no bar. low, high: a whisker, or NULL */
} rk_bars;
void rk_bars_draw(const rk_bars *bars, double x, double y, rk_buffer *out);

/* CSS for charts, light, dark and printed; the page's own colours are variables of it. */
void rk_chart_write_style_sheet(rk_buffer *out);

#endif
