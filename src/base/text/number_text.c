#include "base/text/number_text.h"

#include <float.h>
#include <math.h>

__extension__ typedef unsigned __int128 uint128;

/* mantissa * 2^-shift, of 53 bits, and not whole. */
typedef struct binary {
    double value;
    uint64_t mantissa;
    int shift;
    bool is_f32;
} binary;

/* digits * 10^-places */
typedef struct decimal {
    uint64_t digits;
    int places;
} decimal;

/* From these on 9 digits of a float have 19 places, and 10^19 is a uint64; 17 of a double 22 places, and its
 * mantissa * 10^22 is below 2^127. */
static const double least_f32 = 1e-11, least_f64 = 1e-6;

static inline uint128 get_power_of_ten(int n) {
    return n <= 19 ? rk_powers_of_ten[n] : (uint128)rk_powers_of_ten[19] * rk_powers_of_ten[n - 19];
}

static binary split_f64(double value, bool is_f32) {
    const uint64_t hidden = (uint64_t)1 << 52;
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (binary){value, (bits & (hidden - 1)) | hidden, 1075 - (int)(bits >> 52), is_f32};
}

/* Whether a decimal reads back as the binary, from which it is off by off / power of the mantissa's units.
 * None of 17 digits is halfway to the next, and a power of two, which has one nearer to it, has 14 digits. */
static bool is_read_back(const binary *b, decimal d, uint128 off) {
    const uint128 power = get_power_of_ten(d.places);
    return b->is_f32 /* it is read as a double, which is rounded once more */
               ? (float)((double)d.digits / (double)(uint64_t)power) == (float)b->value
               : 2 * off < power;
}

/* The nearest decimal of so many places; of two as near the even one, as printf has it. */
static bool round_to_places(const binary *b, int places, decimal *out) {
    const uint128 scaled = b->mantissa * get_power_of_ten(places), one = (uint128)1 << b->shift;
    uint128 rest = scaled & (one - 1);
    uint64_t digits = (uint64_t)(scaled >> b->shift);
    bool up = rest > one / 2 || (rest == one / 2 && digits % 2 == 1);
    *out = (decimal){digits + up, places};
    return is_read_back(b, *out, up ? one - rest : rest);
}

/* Of the fewest digits that read back, from 6 or 15 on, which any text keeps. The exponent by the bits is
 * right, or one less where the first digit is 1: there a digit more than is needed is a 0. */
static decimal find_shortest_decimal(const binary *b) {
    const int exponent = (52 - b->shift) * 1233 >> 12; /* log10(2) = .30103 = 1233 / 4096 */
    int places = (b->is_f32 ? FLT_DIG : DBL_DIG) - 1 - exponent;
    decimal d;
    if (places < 1) places = 1;
    while (!round_to_places(b, places, &d)) places++;
    return d;
}

static void drop_last_zeros(decimal *d) {
    for (int n = 8; n > 0; n /= 2)
        while (d->digits % rk_powers_of_ten[n] == 0) {
            d->digits /= rk_powers_of_ten[n];
            d->places -= n;
        }
}

/* Digits as "%g" has them, at the end of the scratch. */
static rk_span format_decimal(decimal d, bool is_negative, char scratch[RK_NUMBER_BYTES]) {
    char room[RK_I64_BYTES], *const end = scratch + RK_NUMBER_BYTES, *at = end;
    drop_last_zeros(&d);
    const rk_span text = rk_format_u64(d.digits, room);
    const char *digits = text.data;
    const int n = (int)text.n_bytes, exponent = n - 1 - d.places;
    int n_before = exponent < -4 ? 1 : exponent < 0 ? 0 : exponent + 1;
    if (exponent < -4) {
        memcpy(at -= 4, "e-00", 4);
        at[2] = (char)('0' + -exponent / 10);
        at[3] = (char)('0' + -exponent % 10);
    }
    if (n > n_before) {
        memcpy(at -= n - n_before, digits + n_before, (size_t)(n - n_before));
        for (int zeros = -exponent - 1; n_before == 0 && zeros > 0; zeros--) *--at = '0';
        *--at = '.';
    }
    if (n_before)
        memcpy(at -= n_before, digits, (size_t)n_before);
    else
        *--at = '0';
    if (is_negative) *--at = '-';
    return (rk_span){at, (size_t)(end - at)};
}

static rk_span format_whole(double value, char scratch[RK_NUMBER_BYTES]) {
    return value == 0 && signbit(value) ? (rk_span){"-0", 2} : rk_format_i64((int64_t)value, scratch);
}

/* Very large and very small numbers, by the C library. */
static rk_span format_by_trying(double value, bool is_f32, char scratch[RK_NUMBER_BYTES]) {
    int n = 0;
    double back = NAN;
    /* A text of so many digits is printed again as it was, so fewer need no try. */
    int digits = is_f32 || fabs(value) < DBL_MIN ? FLT_DIG : DBL_DIG;
    for (; digits <= (is_f32 ? 9 : 17) && back != value; digits++) {
        n = rk_snprintf(scratch, RK_NUMBER_BYTES, "%.*g", digits, value);
        rk_span text = {scratch, (size_t)n};
        if (!rk_parse_f64(text, &back)) back = NAN; /* the largest, of fewer digits, is beyond a double */
        if (is_f32) back = (double)(float)back;
    }
    return (rk_span){scratch, (size_t)n};
}

static bool is_whole(double value) {
    return fabs(value) < 0x1p63 && floor(value) == value;
}

/* Whether its shortest decimal is found here, where it is not whole. */
static bool is_of_usual_size(double value, bool is_f32) {
    return fabs(value) >= (is_f32 ? least_f32 : least_f64) && fabs(value) < 0x1p63;
}

static rk_span format_number(double value, bool is_f32, char scratch[RK_NUMBER_BYTES]) {
    if (isnan(value)) value = NAN; /* without a sign */
    if (is_whole(value)) return format_whole(value, scratch);
    if (!is_of_usual_size(value, is_f32)) return format_by_trying(value, is_f32, scratch);
    const binary b = split_f64(fabs(value), is_f32);
    return format_decimal(find_shortest_decimal(&b), value < 0, scratch);
}

rk_span rk_format_f32(float value, char scratch[RK_NUMBER_BYTES]) {
    return format_number((double)value, true, scratch);
}

rk_span rk_format_f64(double value, char scratch[RK_NUMBER_BYTES]) {
    return format_number(value, false, scratch);
}

double rk_f64_of_f32_text(float value) {
    double wide = (double)value;
    if (!isfinite(wide) || is_whole(wide)) return wide;
    if (!is_of_usual_size(wide, true)) {
        char scratch[RK_NUMBER_BYTES];
        rk_parse_f64(format_by_trying(wide, true, scratch), &wide);
        return wide;
    }
    const binary b = split_f64(fabs(wide), true);
    const decimal d = find_shortest_decimal(&b);
    return copysign((double)d.digits / (double)rk_powers_of_ten[d.places], wide);
}
