/* Whether ids are rows of a table, for the kernels that look: compilers make a loop of vectors of it. */
#ifndef RK_KERNELS_IDS_CHECK_H
#define RK_KERNELS_IDS_CHECK_H

#include <stdbool.h>
#include <stdint.h>

static inline bool has_ids_out_of_range(const int64_t *ids, int64_t n, int64_t n_rows) {
    uint64_t last = (uint64_t)n_rows - 1, stray = 0; /* its sign: of an id below 0, or of last - id */
    for (int64_t i = 0; i < n; i++) stray |= (uint64_t)ids[i] | (last - (uint64_t)ids[i]);
    return stray >> 63;
}

#endif
