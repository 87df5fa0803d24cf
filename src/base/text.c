#include "base/text.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r';
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

bool rk_parse_i64(rk_span text, int64_t *out) {
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

/* Up to 18 digits and a small power of ten: exact in one rounding where the digits fit 2^53 and the power is 10^22 at most
 * (Clinger, "How to read floating point numbers accurately", 1990). False: let strtod do it. */
static bool parse_simple(rk_span text, double *out) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *at = text.data, *end = at + text.n_bytes;
    bool negative = false;
    if (at < end && (*at == '-' || *at == '+')) negative = *at++ == '-';
    uint64_t digits = 0;
    int n_digits = 0, n_after = 0;
    bool point = false;
    for (; at < end; at++) {
        unsigned digit = (unsigned)(unsigned char)*at - '0';
        if (digit <= 9) {
            digits = digits * 10 + digit;
            n_digits++;
            n_after += point;
        } else if (*at == '.' && !point) {
            point = true;
        } else {
            return false;
        }
    }
    if (n_digits == 0 || n_digits > 18 || digits > (1ull << 53) || n_after > 22) return false;
    double value = (double)digits / powers[n_after];
    *out = negative ? -value : value;
    return true;
}

static locale_t c_locale(void) {
    static locale_t locale; /* made once and kept; a race would only leak one more */
    locale_t known = __atomic_load_n(&locale, __ATOMIC_ACQUIRE);
    if (known) return known;
    locale_t made = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t none = (locale_t)0;
    if (__atomic_compare_exchange_n(&locale, &none, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return made;
    freelocale(made);
    return none;
}

bool rk_parse_f64(rk_span text, double *out) {
    text = rk_span_trim(text);
    if (parse_simple(text, out)) return true;
    char copy[128];
    if (text.n_bytes == 0 || text.n_bytes >= sizeof copy) return false;
    for (size_t i = 0; i < text.n_bytes; i++) /* neither "inf", "nan" nor hexadecimal */
        if (!strchr("0123456789+-.eE", text.data[i]) || text.data[i] == 0) return false;
    memcpy(copy, text.data, text.n_bytes);
    copy[text.n_bytes] = 0;
    char *end;
    double value = strtod_l(copy, &end, c_locale());
    if (end != copy + text.n_bytes || !isfinite(value)) return false;
    *out = value;
    return true;
}

bool rk_parse_f32(rk_span text, float *out) {
    double value;
    if (!rk_parse_f64(text, &value) || !isfinite((float)value)) return false;
    *out = (float)value;
    return true;
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
            int best = before[j - 1] + (a[i - 1] != b[j - 1]);
            if (before[j] + 1 < best) best = before[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before2[j - 2] + 1 < best) best = before2[j - 2] + 1;
            now[j] = best;
        }
    }
    return rows[n % 3][m];
}

const char *rk_nearest(const char *word, const char *const *names, size_t n) {
    size_t length = strlen(word);
    if (length > MAX_WORD) return NULL;
    int limit = length <= 3 ? 1 : length <= 6 ? 2 : 3;
    const char *nearest = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!names[i] || strlen(names[i]) > MAX_WORD) continue;
        int distance = edit_distance(word, names[i]);
        if (distance <= limit && distance < (int)strlen(names[i])) {
            limit = distance - 1;
            nearest = names[i];
        }
    }
    return nearest;
}

static void human(double value, double base, const char *const *units, int n_units, char *out, size_t out_bytes) {
    int unit = 0;
    while (fabs(value) >= base && unit < n_units - 1) {
        value /= base;
        unit++;
    }
    snprintf(out, out_bytes, unit ? "%.1f %s" : "%.0f%s%s", value, unit || !*units[0] ? units[unit] : " ", unit ? "" : units[0]);
}

void rk_human_bytes(double bytes, char *out, size_t out_bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    human(bytes, 1024, units, 6, out, out_bytes);
}

void rk_human_count(double count, char *out, size_t out_bytes) {
    static const char *const units[] = {"", "k", "M", "G", "T", "P"};
    human(count, 1000, units, 6, out, out_bytes);
}
