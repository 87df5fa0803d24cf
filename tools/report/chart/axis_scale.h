/* Numbers to places on an axis, and the round numbers that stand along it. */
#ifndef RK_REPORT_CHART_AXIS_SCALE_H
#define RK_REPORT_CHART_AXIS_SCALE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct rk_scale {
    double low, high; /* low < high; both > 0 where it is logarithmic */
    bool log;
    bool whole;      /* ticks are whole numbers */
    double from, to; /* where low and high are, in pixels */
} rk_scale;

/* The range of numbers seen so far; what is not finite, or not above 0 on a logarithmic axis, is passed over.
 * Begin with RK_RANGE_INIT. */
typedef struct rk_range {
    double low, high;
} rk_range;
#define RK_RANGE_INIT \
    { __builtin_inf(), -__builtin_inf() }
void rk_range_add(rk_range *range, double value, bool log);

/* A scale over the range with a share `margin` of it on both sides; over [0, 1], or [1, 10] if logarithmic,
 * where the range is empty. */
rk_scale rk_scale_fit(rk_range range, bool log, double margin, double from, double to);
double rk_scale_position(const rk_scale *scale, double value);

enum { RK_MAX_TICKS = 16, RK_TICK_BYTES = 24 };
typedef struct rk_ticks {
    size_t n;
    double values[RK_MAX_TICKS];
    char texts[RK_MAX_TICKS][RK_TICK_BYTES];
} rk_ticks;

/* About `wanted` round numbers (steps of 1, 2 or 5 times a power of ten) within the scale; on a logarithmic
 * one powers of ten, with 2 and 5 between where these are few. All texts have the same number of decimals. */
void rk_scale_ticks(const rk_scale *scale, int wanted, rk_ticks *out);

/* A number as short as it reads well: 4 significant digits, thousands by k, M, G. */
void rk_format_short_number(double value, char *out, size_t out_bytes);

#endif
