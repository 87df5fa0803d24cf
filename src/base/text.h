/* Small helpers on strings and numbers, independent of the locale. */
#ifndef RK_BASE_TEXT_H
#define RK_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct rk_span { /* a piece of text owned by somebody else; no NUL */
    const char *data;
    size_t n_bytes;
} rk_span;

/* The whole span must be a number (spaces around it allowed); else false. */
bool rk_parse_i64(rk_span text, int64_t *out);
bool rk_parse_f64(rk_span text, double *out);
bool rk_parse_f32(rk_span text, float *out);

/* In decimal, at the end of room[RK_I64_BYTES]: where it begins. */
enum { RK_I64_BYTES = 20 };
char *rk_format_i64(int64_t value, char room[RK_I64_BYTES]);

bool rk_span_equal(rk_span a, const char *text);
rk_span rk_span_trim(rk_span text); /* spaces and tabs off both ends */

/* The nearest of `names` [n] to `word` by edit distance, or NULL if none is near enough to be a typo. */
const char *rk_nearest(const char *word, const char *const *names, size_t n);

/* "1.2 GiB", "13.4 M": written into out. */
void rk_human_bytes(double bytes, char *out, size_t out_bytes);
void rk_human_count(double count, char *out, size_t out_bytes);

#endif
