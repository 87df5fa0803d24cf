/* Small helpers on strings and numbers, independent of the locale. */
#ifndef RK_BASE_TEXT_TEXT_H
#define RK_BASE_TEXT_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"

typedef struct rk_span { /* a piece of text owned by somebody else; no NUL */
    const char *data;
    size_t n_bytes;
} rk_span;

/* 1 to 8 bytes of text in a word, the last one highest, without reading beyond them. */
static inline uint64_t rk_text_load_word(const char *at, size_t n) {
    uint64_t word = 0;
    uint32_t first, last;
    if (n == 8) {
        memcpy(&word, at, 8);
        return word;
    }
    if (n >= 4) {
        memcpy(&first, at, 4);
        memcpy(&last, at + n - 4, 4);
        return (uint64_t)first << (64 - 8 * n) | (uint64_t)last << 32;
    }
    word = (uint64_t)(unsigned char)at[n - 1] << 56;
    if (n > 1) word |= (uint64_t)(unsigned char)at[n - 2] << 48;
    if (n > 2) word |= (uint64_t)(unsigned char)at[0] << 40;
    return word;
}

/* The number that n digits make, which are the highest bytes of the word, the last one highest: neighbours
 * are added up in pairs, fours, eights. False: not all are digits. */
static inline bool rk_parse_digit_word(uint64_t word, size_t n, uint64_t *out) {
    uint64_t ones = word - (0x3030303030303030u << (64 - 8 * n));
    uint64_t pairs = (ones * 10 + (ones >> 8)) & 0x00ff00ff00ff00ffu;
    uint64_t fours = (pairs * 100 + (pairs >> 16)) & 0x0000ffff0000ffffu;
    *out = (fours * 10000 + (fours >> 32)) & 0xffffffffu;
    return ((ones | (ones + 0x7676767676767676u)) & 0x8080808080808080u) == 0;
}

/* 10^0 .. 10^19, all that a uint64 holds. */
enum { RK_POWERS_OF_TEN = 20 };
extern const uint64_t rk_powers_of_ten[RK_POWERS_OF_TEN];

/* The whole span must be a number (spaces around it allowed); else false. */
bool rk_parse_f64(rk_span text, double *out);
bool rk_parse_f32(rk_span text, float *out);
bool rk_parse_bytes(const char *text, uint64_t *out); /* "1500000", "1.5MB", "40 GiB"; above 0 */
bool rk_parse_long_i64(rk_span text, int64_t *out);   /* of any length, with a sign or spaces */
static inline bool rk_parse_i64(rk_span text, int64_t *out) {
    uint64_t digits;
    if (text.n_bytes - 1 >= 8 ||
        !rk_parse_digit_word(rk_text_load_word(text.data, text.n_bytes), text.n_bytes, &digits))
        return rk_parse_long_i64(text, out);
    *out = (int64_t)digits;
    return true;
}

/* In decimal, within the room. */
enum { RK_I64_BYTES = 20 };
rk_span rk_format_i64(int64_t value, char room[RK_I64_BYTES]);
rk_span rk_format_u64(uint64_t value, char room[RK_I64_BYTES]);

/* The same for a piece of a longer text that begins at `whole`: what stands before it is read and masked, so
 * that its length makes no branch. */
static inline bool rk_parse_i64_within(const char *whole, size_t begin, size_t n_bytes, int64_t *out) {
    uint64_t digits, word;
    if (n_bytes - 1 >= 8 || begin + n_bytes < 8) return rk_parse_i64((rk_span){whole + begin, n_bytes}, out);
    memcpy(&word, whole + begin + n_bytes - 8, 8);
    word &= ~(uint64_t)0 << (64 - 8 * n_bytes);
    if (!rk_parse_digit_word(word, n_bytes, &digits))
        return rk_parse_long_i64((rk_span){whole + begin, n_bytes}, out);
    *out = (int64_t)digits;
    return true;
}

/* snprintf with a '.' in numbers, whatever locale the program has set. */
int rk_snprintf(char *out, size_t out_bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));
int rk_vsnprintf(char *out, size_t out_bytes, const char *format, va_list list)
    __attribute__((format(printf, 3, 0)));

bool rk_span_equal(rk_span a, const char *text);
bool rk_span_is_one_of(rk_span a, char *const *texts, int64_t n);
/* Bytes of it that a message shows, as "%.*s" has them. */
int rk_span_printed_bytes(rk_span text);
/* Whether a file's name has this ending, with something before it. */
bool rk_has_ending(const char *path, const char *ending);
/* Bytes of the UTF-8 character that begins here, of the n > 0 that are there; 0: none does. Overlong forms,
 * surrogates and what is beyond U+10FFFF are none. */
size_t rk_utf8_bytes(const char *at, size_t n);
rk_span rk_span_trim(rk_span text); /* spaces and tabs off both ends */

/* Of `names` [n] that which `word` is in another library (base/text/config_synonyms.h), has as its initials,
 * or is a typo of, or NULL. */
const char *rk_nearest_name(const char *word, const char *const *names, size_t n);
/* The same of the names of n structs, `bytes` each, with a `const char *` (or `char *`) at `offset`. */
const char *rk_nearest_name_of(const char *word, const void *array, size_t bytes, size_t offset, size_t n);
/* Whether that is meant, as the hint of this thread's last error; returns `status`. */
rk_status rk_hint_nearest_name(rk_status status, const char *word, const void *array, size_t bytes,
                               size_t offset, size_t n);

/* "1.2 GiB", "13.4 M": written into out. */
void rk_format_bytes(double bytes, char *out, size_t out_bytes);
void rk_format_count(double count, char *out, size_t out_bytes);

#endif
