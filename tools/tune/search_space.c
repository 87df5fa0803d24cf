#include "tune/search_space.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"
#include "base/text/text.h"

enum { MOST_TRIALS = 100000 };

void rk_search_space_release(rk_search_space *space) {
    for (size_t k = 0; k < space->n; k++) {
        rk_search_key *key = &space->keys[k];
        for (size_t i = 0; i < key->n_values; i++) rk_free(key->values[i]);
        RK_FREE_ALL(key->values, key->key);
    }
    rk_free(space->keys);
    *space = (rk_search_space){0};
}

/* A new key at the space's end, and where its values begin. */
static rk_status add_key(rk_search_space *space, const char *text, const char *form, rk_search_key **out,
                         const char **values) {
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return rk_error_hint(rk_error(RK_CONFIG, "'%s' has no KEY=VALUES", text), "write %s", form);
    for (size_t k = 0; k < space->n; k++)
        RK_FAIL_IF(strlen(space->keys[k].key) == (size_t)(equals - text) &&
                       memcmp(space->keys[k].key, text, (size_t)(equals - text)) == 0,
                   RK_CONFIG, "the key '%s' is given twice", space->keys[k].key);
    RK_TRY(rk_reserve_one_more(&space->keys, space->n, &space->capacity, sizeof *space->keys));
    rk_search_key *key = &space->keys[space->n];
    *key = (rk_search_key){0};
    RK_TRY(rk_strndup(text, (size_t)(equals - text), &key->key));
    space->n++;
    *out = key;
    *values = equals + 1;
    return RK_OK;
}

/* The end of the value that begins here: a comma outside of brackets and quotes. */
static const char *find_value_end(const char *at) {
    int depth = 0;
    char quote = 0;
    for (; *at; at++) {
        if (quote) {
            if (*at == quote) quote = 0;
        } else if (*at == '"' || *at == '\'') {
            quote = *at;
        } else if (*at == '[' || *at == '{') {
            depth++;
        } else if (*at == ']' || *at == '}') {
            depth--;
        } else if (*at == ',' && depth == 0) {
            break;
        }
    }
    return at;
}

rk_status rk_search_space_add_grid(rk_search_space *space, const char *text) {
    rk_search_key *key;
    const char *at;
    size_t capacity = 0;
    RK_TRY(add_key(space, text, "KEY=VALUE,VALUE,...", &key, &at));
    for (;;) {
        const char *end = find_value_end(at);
        RK_FAIL_IF(end == at, RK_CONFIG, "'%s' has an empty value", text);
        RK_TRY(rk_reserve_one_more(&key->values, key->n_values, &capacity, sizeof *key->values));
        RK_TRY(rk_strndup(at, (size_t)(end - at), &key->values[key->n_values]));
        key->n_values++;
        if (!*end) return RK_OK;
        at = end + 1;
    }
}

static rk_status bad_range_error(const char *text) {
    return rk_error_hint(rk_error(RK_CONFIG, "'%s' is not a range", text),
                         "write KEY=LOW..HIGH, optionally with :log or :int at its end");
}

rk_status rk_search_space_add_range(rk_search_space *space, const char *text) {
    rk_search_key *key;
    const char *at;
    RK_TRY(add_key(space, text, "KEY=LOW..HIGH[:log][:int]", &key, &at));
    const char *dots = strstr(at, ".."), *end = strchrnul(at, ':');
    if (!dots || dots > end) return bad_range_error(text);
    if (!rk_parse_f64((rk_span){at, (size_t)(dots - at)}, &key->low) ||
        !rk_parse_f64((rk_span){dots + 2, (size_t)(end - dots) - 2}, &key->high))
        return bad_range_error(text);
    while (*end) {
        const char *word = end + 1;
        end = strchrnul(word, ':');
        rk_span flag = {word, (size_t)(end - word)};
        if (rk_span_equal(flag, "log"))
            key->log = true;
        else if (rk_span_equal(flag, "int"))
            key->whole = true;
        else
            return bad_range_error(text);
    }
    RK_FAIL_IF(!isfinite(key->low) || !isfinite(key->high) || !(key->low < key->high), RK_CONFIG,
               "'%s': LOW must be below HIGH", text);
    RK_FAIL_IF(key->log && key->low <= 0, RK_CONFIG, "'%s': a logarithmic range needs LOW > 0", text);
    RK_FAIL_IF(
        key->whole && (fabs(key->low) > 1e15 || fabs(key->high) > 1e15 || ceil(key->low) > floor(key->high)),
        RK_CONFIG, "'%s': there is no whole number between LOW and HIGH", text);
    return RK_OK;
}

rk_status rk_search_space_size(const rk_search_space *space, int64_t *out) {
    int64_t n = 1;
    for (size_t k = 0; k < space->n; k++) {
        n *= (int64_t)space->keys[k].n_values;
        RK_FAIL_IF(n > MOST_TRIALS, RK_CONFIG,
                   "the grids have more than %d combinations\nhint: try some of them with --random N",
                   MOST_TRIALS);
    }
    *out = n;
    return RK_OK;
}

/* Whole numbers are drawn from [low, high+1) and cut, so that each is as likely as the others. */
static double draw_random_value(const rk_search_key *key, double uniform) {
    double low = key->whole ? ceil(key->low) : key->low, high = key->whole ? floor(key->high) + 1 : key->high;
    double value = key->log ? exp(log(low) + uniform * (log(high) - log(low))) : low + uniform * (high - low);
    return key->whole ? fmin(floor(value), high - 1) : value;
}

rk_status rk_search_space_value(const rk_search_space *space, bool random, uint64_t seed, int64_t trial,
                                size_t k, char **out) {
    const rk_search_key *key = &space->keys[k];
    rk_rng rng = {seed, (uint64_t)trial, (uint64_t)k << 32};
    if (key->n_values && random) return rk_strdup(key->values[rk_rng_below(&rng, key->n_values)], out);
    if (key->n_values) {
        int64_t below = 1; /* combinations of the keys behind this one */
        for (size_t j = k + 1; j < space->n; j++) below *= (int64_t)space->keys[j].n_values;
        return rk_strdup(key->values[trial / below % (int64_t)key->n_values], out);
    }
    char text[64];
    rk_snprintf(text, sizeof text, key->whole ? "%.0f" : "%.5g",
                draw_random_value(key, rk_rng_uniform(&rng)));
    return rk_strdup(text, out);
}
