/* The search space: keys, and for each its values or its range. */
#ifndef RK_TUNE_SEARCH_SPACE_H
#define RK_TUNE_SEARCH_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct rk_search_key {
    char *key;
    char **values; /* [n_values] as YAML; none: a range */
    size_t n_values;
    double low, high;
    bool log, whole;
} rk_search_key;

typedef struct rk_search_space {
    rk_search_key *keys; /* [n] */
    size_t n, capacity;
} rk_search_space;

/* "key=a,b,c" and "key=low..high[:log][:int]"; RK_CONFIG says what is wrong with the text. */
rk_status rk_search_space_add_grid(rk_search_space *space, const char *text);
rk_status rk_search_space_add_range(rk_search_space *space, const char *text);
void rk_search_space_release(rk_search_space *space);

/* Combinations of all grids. */
rk_status rk_search_space_size(const rk_search_space *space, int64_t *out);
/* Value of key k in combination `trial` (the last key changes fastest), or drawn from (seed, trial, k): the
 * same however many trials there are. rk_free. */
rk_status rk_search_space_value(const rk_search_space *space, bool random, uint64_t seed, int64_t trial,
                                size_t k, char **out);

#endif
