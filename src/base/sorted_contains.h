/* Searches of ascending numbers. */
#ifndef RK_BASE_SORTED_CONTAINS_H
#define RK_BASE_SORTED_CONTAINS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the value is one of values [n], ascending. */
static inline bool rk_sorted_contains(const int64_t *values, int64_t n, int64_t value) {
    int64_t first = 0, end = n;
    while (first < end) {
        int64_t middle = first + (end - first) / 2;
        if (values[middle] < value)
            first = middle + 1;
        else
            end = middle;
    }
    return first < n && values[first] == value;
}

#endif
