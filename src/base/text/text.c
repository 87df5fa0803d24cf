#include "base/text/text.h"

#include <ctype.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/config_synonyms.h"

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

bool rk_has_ending(const char *path, const char *ending) {
    size_t n = strlen(path), m = strlen(ending);
    return n > m && strcmp(path + n - m, ending) == 0;
}

size_t rk_utf8_bytes(const char *at, size_t n_left) {
    const unsigned char *c = (const unsigned char *)at;
    size_t n = c[0] < 0x80                   ? 1
               : c[0] >= 0xC2 && c[0] < 0xE0 ? 2
               : c[0] >= 0xE0 && c[0] < 0xF0 ? 3
               : c[0] >= 0xF0 && c[0] < 0xF5 ? 4
                                             : 0;
    if (n > n_left) return 0;
    for (size_t i = 1; i < n; i++)
        if ((c[i] & 0xC0) != 0x80) return 0;
    if (n == 3 && ((c[0] == 0xE0 && c[1] < 0xA0) || (c[0] == 0xED && c[1] >= 0xA0))) return 0;
    if (n == 4 && ((c[0] == 0xF0 && c[1] < 0x90) || (c[0] == 0xF4 && c[1] >= 0x90))) return 0;
    return n;
}

rk_span rk_span_trim(rk_span text) {
    while (text.n_bytes && is_space(text.data[0])) {
        text.data++;
        text.n_bytes--;
    }
    while (text.n_bytes && is_space(text.data[text.n_bytes - 1])) text.n_bytes--;
    return text;
}

bool rk_span_equal(rk_span a, const char *text) {
    return strlen(text) == a.n_bytes && memcmp(a.data, text, a.n_bytes) == 0;
}

int rk_span_printed_bytes(rk_span text) {
    return (int)(text.n_bytes < 80 ? text.n_bytes : 80);
}

bool rk_span_is_one_of(rk_span a, char *const *texts, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (rk_span_equal(a, texts[i])) return true;
    return false;
}

/* 1 to 16 digits. */
static inline bool parse_digits(const char *at, size_t n, uint64_t *out) {
    uint64_t high, low;
    if (n <= 8) return rk_parse_digit_word(rk_text_load_word(at, n), n, out);
    if (!rk_parse_digit_word(rk_text_load_word(at, n - 8), n - 8, &high) ||
        !rk_parse_digit_word(rk_text_load_word(at + n - 8, 8), 8, &low))
        return false;
    *out = high * 100000000 + low;
    return true;
}

bool rk_parse_long_i64(rk_span text, int64_t *out) {
    text = rk_span_trim(text);
    size_t i = 0;
    bool negative = false;
    if (text.n_bytes && (text.data[0] == '-' || text.data[0] == '+')) negative = text.data[i++] == '-';
    if (i == text.n_bytes) return false;
    int64_t value = 0;
    for (; i < text.n_bytes; i++) {
        unsigned digit = (unsigned)(unsigned char)text.data[i] - '0';
        if (digit > 9) return false;
        if (__builtin_mul_overflow(value, 10, &value)) return false;
        /* Built up negative, since the least i64 has no positive twin. */
        if (__builtin_sub_overflow(value, (int64_t)digit, &value)) return false;
    }
    if (!negative && value == INT64_MIN) return false;
    *out = negative ? value : -value;
    return true;
}

/* "e-5" of at[0..n). */
static bool parse_exponent(const char *at, size_t n, int *out) {
    bool negative = n > 1 && at[1] == '-';
    size_t first = n > 1 && (at[1] == '-' || at[1] == '+') ? 2 : 1;
    uint64_t digits;
    if ((*at != 'e' && *at != 'E') || n == first || n - first > 3 ||
        !parse_digits(at + first, n - first, &digits))
        return false;
    *out = negative ? -(int)digits : (int)digits;
    return true;
}

/* The first byte that is a point, as a mask of its lowest bit; 0: none is. */
static inline uint64_t find_decimal_point(uint64_t word) {
    uint64_t other = word ^ 0x2e2e2e2e2e2e2e2eu;
    return (other - 0x0101010101010101u) & ~other & 0x8080808080808080u;
}

/* 1 to 8 bytes, digits and at most one point, without a branch on where it stands: the digits before it move
 * up into its place. */
static inline bool parse_decimal8(const char *at, size_t n, uint64_t *digits, int *n_after, bool *has_point) {
    uint64_t word = rk_text_load_word(at, n), point = find_decimal_point(word);
    *n_after = 0;
    *has_point = point != 0;
    if (!point) return rk_parse_digit_word(word, n, digits);
    if (n == 1) return false;
    uint64_t before = (point & -point) - 1, keep = before >> 7; /* the bits below the point's byte */
    *n_after = 7 - __builtin_ctzll(point) / 8;
    word = (word & ~(before << 1 | 1)) | (word & keep) << 8;
    return rk_parse_digit_word(word, n - 1, digits);
}

/* 1 to 15 bytes, digits and at most one point. */
static inline bool parse_short_decimal(const char *at, size_t n, uint64_t *digits, int *n_after) {
    uint64_t high, low;
    int n_high_after;
    bool high_has_point, low_has_point;
    if (n <= 8) return parse_decimal8(at, n, digits, n_after, &low_has_point);
    if (!parse_decimal8(at, n - 8, &high, &n_high_after, &high_has_point) ||
        !parse_decimal8(at + n - 8, 8, &low, n_after, &low_has_point))
        return false;
    if (high_has_point) *n_after = n_high_after + 8;
    *digits = high * (low_has_point ? 10000000 : 100000000) + low;
    return !(high_has_point && low_has_point);
}

const uint64_t rk_powers_of_ten[RK_POWERS_OF_TEN] = {1,
                                                     10,
                                                     100,
                                                     1000,
                                                     10000,
                                                     100000,
                                                     1000000,
                                                     10000000,
                                                     100000000,
                                                     1000000000,
                                                     10000000000,
                                                     100000000000,
                                                     1000000000000,
                                                     10000000000000,
                                                     100000000000000,
                                                     1000000000000000,
                                                     10000000000000000,
                                                     100000000000000000,
                                                     1000000000000000000,
                                                     10000000000000000000u};

/* Up to 15 digits with a point among them. *rest: what follows, an exponent perhaps. */
static bool parse_long_decimal(const char *at, const char *end, uint64_t *digits, int *n_after,
                               const char **rest) {
    const char *point = at;
    while (point < end && *point != '.' && (unsigned char)*point < 'A') point++;
    const char *after = point < end && *point == '.' ? point + 1 : point, *stop = after;
    while (after > point && stop < end && (unsigned char)*stop < 'A') stop++;
    size_t n_before = (size_t)(point - at), n = (size_t)(stop - after);
    uint64_t high = 0, low = 0;
    if (n_before + n == 0 || n_before + n > 15) return false;
    if ((n_before && !parse_digits(at, n_before, &high)) || (n && !parse_digits(after, n, &low)))
        return false;
    *digits = high * rk_powers_of_ten[n] + low;
    *n_after = (int)n;
    *rest = stop;
    return true;
}

/* Few digits and a power of ten: exact in one rounding where the power is 10^22 at most, since the digits are
 * below 2^53 (Clinger, "How to read floating point numbers accurately", 1990). False: let strtod do it. */
static bool parse_simple_decimal(rk_span text, double *out) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *at = text.data, *end = at + text.n_bytes, *rest = end;
    bool negative = false;
    if (at < end && (*at == '-' || *at == '+')) negative = *at++ == '-';
    uint64_t digits = 0;
    int n_after = 0, exponent = 0;
    if (end - at < 1) return false;
    if (end - at > 15 || !parse_short_decimal(at, (size_t)(end - at), &digits, &n_after)) {
        if (!parse_long_decimal(at, end, &digits, &n_after, &rest)) return false;
        if (rest < end && !parse_exponent(rest, (size_t)(end - rest), &exponent)) return false;
    }
    int power = exponent - n_after;
    if (power < -22 || power > 22) return false;
    double value = (double)digits;
    value = power < 0 ? value / powers[-power] : value * powers[power];
    *out = negative ? -value : value;
    return true;
}

/* A quotient of numbers that are not 0, at most 10^19 each, rounded once. */
static double divide_exactly(uint64_t a, uint64_t b) {
    __extension__ typedef unsigned __int128 wide;
    const int up_a = __builtin_clzll(a), up_b = __builtin_clzll(b);
    const wide dividend = (wide)(a << up_a) << 63;
    const uint64_t divisor = b << up_b, quotient = (uint64_t)(dividend / divisor); /* of 63 or 64 bits */
    const int n_lost = 63 - DBL_MANT_DIG + (int)(quotient >> 63);
    const uint64_t half = (uint64_t)1 << (n_lost - 1), lost = quotient & (2 * half - 1),
                   kept = quotient >> n_lost;
    bool rounds_up = lost > half || (lost == half && (kept % 2 == 1 || dividend % divisor != 0));
    return ldexp((double)(kept + rounds_up), n_lost - 63 + up_b - up_a);
}

/* Up to 19 digits, of which up to 19 stand behind the point: what programs print of an f64. */
static bool parse_decimal19(rk_span text, double *out) {
    const char *at = text.data, *end = at + text.n_bytes, *point = NULL;
    uint64_t digits = 0, power = 1;
    int n = 0;
    bool negative = at < end && *at == '-';
    for (at += negative; at < end; at++) {
        unsigned digit = (unsigned)(unsigned char)*at - '0';
        if (*at == '.' && !point) {
            point = at;
            continue;
        }
        if (digit > 9 || (n += digits || digit) > 19 || (point && at - point > 19)) return false;
        digits = digits * 10 + digit;
        if (point) power *= 10;
    }
    if (digits == 0) return false;
    double value = divide_exactly(digits, power);
    *out = negative ? -value : value;
    return true;
}

static locale_t get_c_locale(void) {
    static locale_t locale; /* made once and kept; a race would only leak one more */
    locale_t known = __atomic_load_n(&locale, __ATOMIC_ACQUIRE);
    if (known) return known;
    locale_t made = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t none = (locale_t)0;
    if (__atomic_compare_exchange_n(&locale, &none, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return made;
    freelocale(made);
    return none;
}

int rk_vsnprintf(char *out, size_t out_bytes, const char *format, va_list list) {
    locale_t before = uselocale(get_c_locale());
    int n = vsnprintf(out, out_bytes, format, list);
    uselocale(before);
    return n;
}

int rk_snprintf(char *out, size_t out_bytes, const char *format, ...) {
    va_list list;
    va_start(list, format);
    int n = rk_vsnprintf(out, out_bytes, format, list);
    va_end(list);
    return n;
}

bool rk_parse_f64(rk_span text, double *out) {
    text = rk_span_trim(text);
    if (parse_simple_decimal(text, out) || parse_decimal19(text, out)) return true;
    char copy[128];
    if (text.n_bytes == 0 || text.n_bytes >= sizeof copy) return false;
    for (size_t i = 0; i < text.n_bytes; i++) /* neither "inf", "nan" nor hexadecimal */
        if (!strchr("0123456789+-.eE", text.data[i]) || text.data[i] == 0) return false;
    memcpy(copy, text.data, text.n_bytes);
    copy[text.n_bytes] = 0;
    char *end;
    double value = strtod_l(copy, &end, get_c_locale());
    if (end != copy + text.n_bytes || !isfinite(value)) return false;
    *out = value;
    return true;
}

static inline char *format_digits(uint64_t value, char room[RK_I64_BYTES]) {
    static const char pairs[] =
        "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
        "505152535455565758596061626364656667686970717273747576777879808182838485868788899091929394959697989"
        "9";
    char *at = room + RK_I64_BYTES;
    uint64_t rest = value;
    for (; rest >= 100; rest /= 100) memcpy(at -= 2, pairs + 2 * (rest % 100), 2);
    if (rest >= 10)
        memcpy(at -= 2, pairs + 2 * rest, 2);
    else
        *--at = (char)('0' + rest);
    return at;
}

rk_span rk_format_u64(uint64_t value, char room[RK_I64_BYTES]) {
    const char *at = format_digits(value, room);
    return (rk_span){at, (size_t)(room + RK_I64_BYTES - at)};
}

rk_span rk_format_i64(int64_t value, char room[RK_I64_BYTES]) {
    char *at = format_digits(value < 0 ? -(uint64_t)value : (uint64_t)value, room);
    if (value < 0) *--at = '-';
    return (rk_span){at, (size_t)(room + RK_I64_BYTES - at)};
}

bool rk_parse_f32(rk_span text, float *out) {
    double value;
    if (!rk_parse_f64(text, &value) || !isfinite((float)value)) return false;
    *out = (float)value;
    return true;
}

/* However a letter is written. */
static bool characters_differ(char a, char b) {
    return tolower((unsigned char)a) != tolower((unsigned char)b);
}

/* Edits (insert, delete, replace, swap of neighbours) from a to b, both shorter than MAX_WORD. */
enum { MAX_WORD = 64 };
static int edit_distance(const char *a, const char *b) {
    int n = (int)strlen(a), m = (int)strlen(b);
    int rows[3][MAX_WORD + 1];
    for (int j = 0; j <= m; j++) rows[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *now = rows[i % 3];
        const int *before = rows[(i + 2) % 3], *before2 = rows[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            int best = before[j - 1] + characters_differ(a[i - 1], b[j - 1]);
            if (before[j] + 1 < best) best = before[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            if (i > 1 && j > 1 && !characters_differ(a[i - 1], b[j - 2]) &&
                !characters_differ(a[i - 2], b[j - 1]) && before2[j - 2] + 1 < best)
                best = before2[j - 2] + 1;
            now[j] = best;
        }
    }
    return rows[n % 3][m];
}

/* "lr" of "learning_rate". */
static bool is_initials(const char *word, const char *name) {
    for (const char *at = name; at; at = strchr(at, '_')) {
        at += at != name;
        if (!*word || *word++ != *at) return false;
    }
    return !*word;
}

/* Names that stand in n structs of so many bytes, `offset` bytes into each. NULL where n is 0. */
typedef struct name_array {
    const char *structs;
    size_t bytes, offset, n;
} name_array;

static const char *name_of_struct(name_array names, size_t i) {
    const char *name;
    memcpy(&name, names.structs + i * names.bytes + names.offset, sizeof name);
    return name ? name : "";
}

/* What another library's word means, if that is among the names. */
static const char *find_synonym_among_names(const char *word, name_array names) {
    const char *meaning;
    for (size_t at = 0; (meaning = rk_find_synonym(word, at)); at++)
        for (size_t i = 0; i < names.n; i++)
            if (strcmp(name_of_struct(names, i), rk_synonym_last_part(meaning)) == 0)
                return name_of_struct(names, i);
    return NULL;
}

/* A short word is near to too much: of two letters only its initials are looked at. */
const char *rk_nearest_name_of(const char *word, const void *array, size_t bytes, size_t offset, size_t n) {
    const name_array names = {array, bytes, offset, n};
    size_t length = strlen(word);
    if (length > MAX_WORD) return NULL;
    const char *nearest = find_synonym_among_names(word, names);
    if (nearest) return nearest;
    for (size_t i = 0; i < n; i++)
        if (length > 1 && is_initials(word, name_of_struct(names, i))) return name_of_struct(names, i);
    int limit = length <= 2 ? 0 : length <= 5 ? 1 : length <= 8 ? 2 : 3;
    for (size_t i = 0; i < n && limit; i++) {
        const char *name = name_of_struct(names, i);
        if (strlen(name) > MAX_WORD) continue;
        int distance = edit_distance(word, name);
        if (distance <= limit && distance < (int)strlen(name)) {
            limit = distance - 1;
            nearest = name;
        }
    }
    return nearest;
}

const char *rk_nearest_name(const char *word, const char *const *names, size_t n) {
    return rk_nearest_name_of(word, names, sizeof *names, 0, n);
}

rk_status rk_hint_nearest_name(rk_status status, const char *word, const void *array, size_t bytes,
                               size_t offset, size_t n) {
    const char *nearest = rk_nearest_name_of(word, array, bytes, offset, n);
    return nearest ? rk_error_hint(status, "did you mean '%s'?", nearest) : status;
}

static void format_with_unit(double value, double base, const char *const *units, int n_units, char *out,
                             size_t out_bytes) {
    int unit = 0;
    while (fabs(value) >= base && unit < n_units - 1) {
        value /= base;
        unit++;
    }
    rk_snprintf(out, out_bytes, unit ? "%.1f %s" : "%.0f%s%s", value, unit || !*units[0] ? units[unit] : " ",
                unit ? "" : units[0]);
}

void rk_format_bytes(double bytes, char *out, size_t out_bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    format_with_unit(bytes, 1024, units, 6, out, out_bytes);
}

void rk_format_count(double count, char *out, size_t out_bytes) {
    static const char *const units[] = {"", "k", "M", "G", "T", "P"};
    format_with_unit(count, 1000, units, 6, out, out_bytes);
}

bool rk_parse_bytes(const char *text, uint64_t *out) {
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"KB", 1e3},
                 {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},    {"", 1}};
    size_t n = strlen(text), i = 0;
    while (n < strlen(units[i].name) || strcmp(text + n - strlen(units[i].name), units[i].name) != 0) i++;
    double value;
    if (!rk_parse_f64((rk_span){text, n - strlen(units[i].name)}, &value) || !(value > 0) ||
        value * units[i].bytes > 0x1p53)
        return false;
    *out = (uint64_t)(value * units[i].bytes);
    return *out > 0;
}
