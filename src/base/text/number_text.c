#include "base/text/number_text.h"

#include <float.h>
#include <math.h>

static rk_span format_whole_or_decimal(double value, bool is_f32, char scratch[RK_NUMBER_BYTES]) {
    const double past_ids = 0x1p63;
    if (isnan(value)) value = NAN; /* without a sign */
    bool is_whole = fabs(value) < past_ids && floor(value) == value;
    int n = is_whole ? rk_snprintf(scratch, RK_NUMBER_BYTES, "%.0f", value) : 0;
    double back = 0;
    /* A text of so many digits is printed again as it was, so fewer need no try. */
    int digits = is_f32 || fabs(value) < DBL_MIN ? FLT_DIG : DBL_DIG;
    for (; digits <= (is_f32 ? 9 : 17) && !is_whole && back != value; digits++) {
        n = rk_snprintf(scratch, RK_NUMBER_BYTES, "%.*g", digits, value);
        rk_span text = {scratch, (size_t)n};
        float narrow = 0;
        bool is_number = is_f32 ? rk_parse_f32(text, &narrow) : rk_parse_f64(text, &back);
        if (is_f32) back = (double)narrow;
        if (!is_number) back = value; /* nan and inf: once is enough */
    }
    return (rk_span){scratch, (size_t)n};
}

rk_span rk_format_f32(float value, char scratch[RK_NUMBER_BYTES]) {
    return format_whole_or_decimal((double)value, true, scratch);
}

rk_span rk_format_f64(double value, char scratch[RK_NUMBER_BYTES]) {
    return format_whole_or_decimal(value, false, scratch);
}
