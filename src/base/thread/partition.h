/* One parallel loop over several items (features, tables) of unequal size. Item i has tasks begins[i] ..
 * begins[i+1]-1, as many as its size needs. So the threads share one large item, and many small ones cost
 * little. */
#ifndef RK_BASE_THREAD_PARTITION_H
#define RK_BASE_THREAD_PARTITION_H

#include <stddef.h>
#include <stdint.h>

/* The item that a task belongs to: the last one that begins at or before it. begins [n_items+1]. */
static inline size_t rk_partition_find_item(const size_t *begins, size_t n_items, size_t task) {
    size_t low = 0, high = n_items;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (begins[middle] <= task)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Where part `part` of `n_parts` equal parts of [0, n) begins; part n_parts begins at n. */
static inline int64_t rk_partition_begin(int64_t n, size_t part, size_t n_parts) {
    return n / (int64_t)n_parts * (int64_t)part + n % (int64_t)n_parts * (int64_t)part / (int64_t)n_parts;
}

#endif
