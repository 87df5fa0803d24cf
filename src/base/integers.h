/* Small functions of whole numbers. */
#ifndef RK_BASE_INTEGERS_H
#define RK_BASE_INTEGERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The least multiple of `to` that is n or more. */
static inline size_t rk_round_up(size_t n, size_t to) {
    return (n + to - 1) / to * to;
}

static inline int64_t rk_min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t rk_max_i64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* How many bits hold the number: 0 of 0, 3 of 4. */
static inline int rk_bit_width(uint64_t n) {
    int bits = 0;
    while (bits < 64 && n >> bits) bits++;
    return bits;
}

/* Eight bytes at any address as this machine's number. */
static inline uint64_t rk_load_u64(const void *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* For qsort and bsearch of uint64, at any address, or of structs that begin with one. */
static inline int rk_compare_u64(const void *a, const void *b) {
    uint64_t x = rk_load_u64(a), y = rk_load_u64(b);
    return x < y ? -1 : x > y;
}

/* Likewise of int64, or of structs that begin with one. */
static inline int rk_compare_i64(const void *a, const void *b) {
    int64_t x = (int64_t)rk_load_u64(a), y = (int64_t)rk_load_u64(b);
    return x < y ? -1 : x > y;
}

/* How many of values [n], ascending, are below this one: where it is, or would be. */
static inline int64_t rk_sorted_lower_bound(const int64_t *values, int64_t n, int64_t value) {
    int64_t first = 0, end = n;
    while (first < end) {
        int64_t middle = first + (end - first) / 2;
        if (values[middle] < value)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

/* Where the value is among values [n], ascending; -1: it is not there. */
static inline int64_t rk_sorted_find(const int64_t *values, int64_t n, int64_t value) {
    int64_t at = rk_sorted_lower_bound(values, n, value);
    return at < n && values[at] == value ? at : -1;
}
static inline bool rk_sorted_contains(const int64_t *values, int64_t n, int64_t value) {
    return rk_sorted_find(values, n, value) >= 0;
}

#endif
