#include "report/chart/axis_scale.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"

void rk_range_add(rk_range *range, double value, bool log) {
    if (!isfinite(value) || (log && value <= 0)) return;
    range->low = fmin(range->low, value);
    range->high = fmax(range->high, value);
}

static double to_axis_value(bool log, double value) {
    return log ? log10(value) : value;
}
static double from_axis_value(bool log, double place) {
    return log ? pow(10, place) : place;
}

rk_scale rk_scale_fit(rk_range range, bool log, double margin, double from, double to) {
    rk_scale scale = {.log = log, .from = from, .to = to, .low = log ? 1 : 0, .high = log ? 10 : 1};
    if (range.low > range.high) return scale;
    double low = to_axis_value(log, range.low), high = to_axis_value(log, range.high);
    double room = high > low ? margin * (high - low) : fmax(0.05 * fabs(high), log ? 0.2 : 1e-3);
    scale.low = from_axis_value(log, low - room);
    scale.high = from_axis_value(log, high + room);
    return scale;
}

double rk_scale_position(const rk_scale *scale, double value) {
    double low = to_axis_value(scale->log, scale->low), high = to_axis_value(scale->log, scale->high);
    return scale->from + (scale->to - scale->from) * (to_axis_value(scale->log, value) - low) / (high - low);
}

/* Values of a step, all with its decimals; large ones in thousands or millions. */
static void format_tick(double value, double step, double largest, char *out) {
    static const struct {
        double unit;
        const char *suffix;
        double from; /* the least of the largest values that are written so; 1000 to 9999 stay as they are */
    } units[] = {{1e9, "G", 1e9}, {1e6, "M", 1e6}, {1e3, "k", 1e4}, {1, "", 0}};
    size_t u = 0;
    while (largest < units[u].from || (u < 3 && step < units[u].unit / 10)) u++;
    int decimals = (int)-floor(log10(step / units[u].unit) + 1e-9);
    if (decimals > 6)
        rk_snprintf(out, RK_TICK_BYTES, "%.3g", value);
    else if (value == 0 && u < 3)
        snprintf(out, RK_TICK_BYTES, "0");
    else
        rk_snprintf(out, RK_TICK_BYTES, "%.*f%s", decimals > 0 ? decimals : 0, value / units[u].unit,
                    units[u].suffix);
}

static double round_tick_step(double span, int wanted) {
    double rough = span / wanted, power = pow(10, floor(log10(rough))), first = rough / power;
    return power * (first < 1.4 ? 1 : first < 3.2 ? 2 : first < 7 ? 5 : 10); /* the nearest, as ratios go */
}

static void make_linear_ticks(const rk_scale *scale, int wanted, rk_ticks *out) {
    double step = fmax(round_tick_step(scale->high - scale->low, wanted), scale->whole ? 1 : 0),
           largest = fmax(fabs(scale->low), fabs(scale->high));
    double first = ceil(scale->low / step - 1e-9), last = floor(scale->high / step + 1e-9);
    for (double k = first; k <= last && out->n < RK_MAX_TICKS; k++, out->n++) {
        out->values[out->n] = k * step + 0.0; /* no -0 */
        format_tick(out->values[out->n], step, largest, out->texts[out->n]);
    }
}

static void make_log_ticks(const rk_scale *scale, int wanted, rk_ticks *out) {
    static const double within[] = {1, 2, 5};
    double first = floor(log10(scale->low)), last = ceil(log10(scale->high)),
           decades = log10(scale->high / scale->low);
    int step = decades > wanted ? (int)ceil(decades / wanted) : 1, n_within = decades < 2.5 ? 3 : 1;
    for (double k = first; k <= last; k += step)
        for (int i = 0; i < n_within && out->n < RK_MAX_TICKS; i++) {
            double value = within[i] * pow(10, k);
            if (value < scale->low * (1 - 1e-9) || value > scale->high * (1 + 1e-9)) continue;
            out->values[out->n] = value;
            rk_snprintf(out->texts[out->n++], RK_TICK_BYTES, "%.12g", value);
        }
}

void rk_scale_ticks(const rk_scale *scale, int wanted, rk_ticks *out) {
    *out = (rk_ticks){0};
    if (scale->log)
        make_log_ticks(scale, wanted, out);
    else
        make_linear_ticks(scale, wanted, out);
}

void rk_format_short_number(double value, char *out, size_t out_bytes) {
    static const char *const suffixes[] = {"", "k", "M", "G", "T"};
    int unit = 0;
    if (!isfinite(value)) {
        snprintf(out, out_bytes, "-");
        return;
    }
    while (fabs(value) >= 99999.5 && unit < 4) {
        value /= 1000;
        unit++;
    }
    rk_snprintf(out, out_bytes, "%.*g%s", fabs(value) >= 1000 ? 5 : 4, value, suffixes[unit]);
}
